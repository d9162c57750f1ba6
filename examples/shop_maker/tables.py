"""The tables of the shop, as its developers would have written them."""

DATABASE = "shopdb"

CREATE_DATABASE = f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"

CREATE_TABLES = (
    """CREATE TABLE customers (
        id INT UNSIGNED NOT NULL PRIMARY KEY,
        email VARCHAR(190) NOT NULL,
        name VARCHAR(120) NOT NULL,
        nickname VARCHAR(60) NULL,
        status ENUM('new', 'active', 'blocked', 'left') NOT NULL DEFAULT 'new',
        interests SET('garden', 'kitchen', 'books', 'toys', 'outdoor') NULL,
        birthday DATE NULL,
        credit DECIMAL(10,2) NOT NULL DEFAULT 0,
        newsletter TINYINT(1) NOT NULL DEFAULT 0,
        preferences JSON NULL,
        created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
        updated_at DATETIME(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)
    )""",
    """CREATE TABLE addresses (
        id BIGINT NOT NULL PRIMARY KEY,
        customer_id INT UNSIGNED NOT NULL,
        kind ENUM('billing', 'shipping') NULL,
        street VARCHAR(200) NOT NULL,
        city VARCHAR(80) CHARACTER SET latin1 NULL,
        city_local VARCHAR(80) CHARACTER SET gbk NULL,
        country CHAR(2) CHARACTER SET ascii NOT NULL,
        latitude DOUBLE NULL,
        longitude DOUBLE NULL,
        KEY (customer_id)
    )""",
    """CREATE TABLE categories (
        id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
        parent_id SMALLINT UNSIGNED NULL,
        title VARCHAR(80) NOT NULL,
        sort_weight FLOAT NULL
    )""",
    """CREATE TABLE products (
        sku VARCHAR(40) NOT NULL PRIMARY KEY,
        category_id SMALLINT UNSIGNED NOT NULL,
        title VARCHAR(200) NOT NULL,
        description TEXT NULL,
        price DECIMAL(12,4) UNSIGNED NOT NULL,
        weight_kg FLOAT NULL,
        is_active BIT(1) NOT NULL DEFAULT b'1',
        release_year YEAR NULL,
        thumbnail BLOB NULL,
        changed_at TIMESTAMP NULL
    )""",
    """CREATE TABLE inventory (
        warehouse CHAR(4) NOT NULL,
        sku VARCHAR(40) NOT NULL,
        quantity INT NOT NULL,
        reserved MEDIUMINT UNSIGNED NOT NULL DEFAULT 0,
        counted_on DATE NULL,
        PRIMARY KEY (warehouse, sku)
    )""",
    """CREATE TABLE orders (
        id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
        customer_id INT UNSIGNED NOT NULL,
        status VARCHAR(20) NOT NULL,
        total DECIMAL(14,2) NOT NULL,
        currency CHAR(3) NOT NULL,
        note TEXT NULL,
        placed_at DATETIME(3) NOT NULL,
        shipped_at TIMESTAMP(6) NULL,
        KEY (customer_id)
    )""",
    """CREATE TABLE order_items (
        order_id BIGINT UNSIGNED NOT NULL,
        line_number TINYINT UNSIGNED NOT NULL,
        sku VARCHAR(40) NOT NULL,
        quantity SMALLINT NOT NULL,
        unit_price DECIMAL(12,4) NOT NULL,
        discount FLOAT NULL,
        gift_text VARCHAR(200) NULL,
        PRIMARY KEY (order_id, line_number)
    )""",
    """CREATE TABLE payments (
        id BINARY(16) NOT NULL PRIMARY KEY,
        order_id BIGINT UNSIGNED NOT NULL,
        method ENUM('card', 'transfer', 'voucher', 'cash') NOT NULL,
        amount DECIMAL(14,2) NOT NULL,
        token VARBINARY(48) NULL,
        paid_after TIME(3) NULL,
        KEY (order_id)
    )""",
    """CREATE TABLE audit_log (
        happened_at DATETIME(6) NOT NULL,
        actor VARCHAR(60) NULL,
        action VARCHAR(60) NOT NULL,
        subject BIGINT NULL,
        detail TEXT NULL
    )""",
    """CREATE TABLE documents (
        id INT NOT NULL PRIMARY KEY,
        title VARCHAR(200) NOT NULL,
        body LONGTEXT NULL,
        attachment MEDIUMBLOB NULL,
        revision SMALLINT UNSIGNED NOT NULL DEFAULT 1
    )""",
    """CREATE TABLE type_gallery (
        id INT NOT NULL PRIMARY KEY,
        c_tinyint TINYINT NULL,
        c_tinyint_unsigned TINYINT UNSIGNED NULL,
        c_bool BOOLEAN NULL,
        c_smallint SMALLINT NULL,
        c_smallint_unsigned SMALLINT UNSIGNED NULL,
        c_mediumint MEDIUMINT NULL,
        c_mediumint_unsigned MEDIUMINT UNSIGNED NULL,
        c_int INT NULL,
        c_int_unsigned INT UNSIGNED NULL,
        c_int_zerofill INT(8) ZEROFILL NULL,
        c_bigint BIGINT NULL,
        c_bigint_unsigned BIGINT UNSIGNED NULL,
        c_decimal DECIMAL(10,2) NULL,
        c_decimal_unsigned DECIMAL(12,4) UNSIGNED NULL,
        c_decimal_whole DECIMAL(20,0) NULL,
        c_decimal_wide DECIMAL(38,10) NULL,
        c_decimal_huge DECIMAL(60,20) NULL,
        c_float FLOAT NULL,
        c_float_unsigned FLOAT UNSIGNED NULL,
        c_double DOUBLE NULL,
        c_double_scaled DOUBLE(12,3) NULL,
        c_bit BIT NULL,
        c_bit_17 BIT(17) NULL,
        c_bit_64 BIT(64) NULL,
        c_year YEAR NULL,
        c_date DATE NULL,
        c_datetime DATETIME NULL,
        c_datetime_6 DATETIME(6) NULL,
        c_timestamp TIMESTAMP NULL,
        c_timestamp_3 TIMESTAMP(3) NULL,
        c_timestamp_6 TIMESTAMP(6) NULL,
        c_time TIME NULL,
        c_time_2 TIME(2) NULL,
        c_time_6 TIME(6) NULL,
        c_char CHAR(12) NULL,
        c_char_latin1 CHAR(12) CHARACTER SET latin1 NULL,
        c_varchar VARCHAR(300) NULL,
        c_varchar_latin1 VARCHAR(60) CHARACTER SET latin1 NULL,
        c_varchar_gbk VARCHAR(60) CHARACTER SET gbk NULL,
        c_varchar_utf8 VARCHAR(60) CHARACTER SET utf8mb3 NULL,
        c_tinytext TINYTEXT NULL,
        c_text TEXT NULL,
        c_text_gbk TEXT CHARACTER SET gbk NULL,
        c_mediumtext MEDIUMTEXT NULL,
        c_longtext_latin1 LONGTEXT CHARACTER SET latin1 NULL,
        c_enum ENUM('small', 'medium', 'large', 'it''s', '') NULL,
        c_enum_latin1 ENUM('café', 'thé') CHARACTER SET latin1 NULL,
        c_set SET('red', 'green', 'blue', 'naïve') NULL,
        c_json JSON NULL,
        c_binary BINARY(8) NULL,
        c_varbinary VARBINARY(64) NULL,
        c_tinyblob TINYBLOB NULL,
        c_blob BLOB NULL,
        c_mediumblob MEDIUMBLOB NULL,
        c_longblob LONGBLOB NULL,
        größe_cm DECIMAL(6,1) NULL
    )""",
)

CREATE_COUPONS = """CREATE TABLE coupons (
        code VARCHAR(24) CHARACTER SET latin1 NOT NULL PRIMARY KEY,
        percent TINYINT UNSIGNED NULL,
        valid_until DATETIME NULL,
        used BIGINT NOT NULL DEFAULT 0
    )"""
"""Created later than the others: a table that the first windows do not know."""

ADD_LOYALTY = "ALTER TABLE customers ADD COLUMN loyalty_points INT UNSIGNED NULL AFTER email"
"""A nullable column without a default, not behind the last column: older rows have no value for it."""
