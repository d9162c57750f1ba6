"""Transactions of the shop, one for each method.

The shop remembers what it needs to name rows that exist (keys of customers, orders, products), nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from examples.shop_maker import gallery, words
from examples.shop_maker.session import Session

WAREHOUSES = ("NRTH", "SOTH", "WEST")
_METHODS = ("card", "transfer", "voucher", "cash")


@dataclass(slots=True)
class Shop:
    """The shop's staff at one session."""

    session: Session
    random: Random
    customers: list[int] = field(default_factory=list)
    skus: list[str] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    gallery_ids: list[int] = field(default_factory=list)
    coupons: list[str] = field(default_factory=list)
    categories: int = 0
    next_customer: int = 1
    next_address: int = 1
    next_order: int = 4_294_967_290
    """Just below 2**32, so that order numbers outgrow 32 bits early."""
    next_gallery: int = 1
    next_sku: int = 1
    next_payment: int = 1

    def stock_the_shop(self, now: float, *, products: int) -> None:
        """Insert the first rows, many at a time: categories, products and their inventory."""
        self.categories = 24
        titles = [words.thing(self.random).split()[-1] for _ in range(self.categories)]
        with self.session.transaction(now) as session:
            session.insert(
                "categories",
                [
                    {
                        "id": number,
                        "parent_id": None if number <= 4 else self.random.randint(1, 4),
                        "title": f"{title} {number}",
                        "sort_weight": None if number % 5 == 0 else self.random.random() * 10,
                    }
                    for number, title in enumerate(titles, start=1)
                ],
            )
        for start in range(0, products, 60):
            self.new_products(now + 1 + start / 60, count=min(60, products - start))

    def new_products(self, now: float, *, count: int) -> None:
        """Insert products with stock in some warehouses."""
        rows = []
        for _ in range(count):
            sku = f"{self.random.choice('ABCDÄ')}-{self.next_sku:05d}"
            self.next_sku += 1
            self.skus.append(sku)
            rows.append(
                {
                    "sku": sku,
                    "category_id": self.random.randint(1, self.categories),
                    "title": words.thing(self.random),
                    "description": words.remark(self.random),
                    "price": f"{self.random.uniform(0.5, 900):.4f}",
                    "weight_kg": None if self.random.random() < 0.2 else self.random.uniform(0.001, 60),
                    "is_active": 1,
                    "release_year": self.random.choice((None, 1999, 2024, 2025, 2026)),
                    "thumbnail": None if self.random.random() < 0.5 else words.some_bytes(self.random, 80),
                    "changed_at": None,
                }
            )
        stock = [
            {"warehouse": house, "sku": row["sku"], "quantity": self.random.randint(5, 500), "counted_on": "2025-12-31"}
            for row in rows
            for house in WAREHOUSES
            if self.random.random() < 0.8
        ]
        with self.session.transaction(now) as session:
            session.insert("products", rows)
            session.insert("inventory", stock)

    def customers_register(self, now: float, *, count: int = 1) -> None:
        """Insert new customers with their addresses."""
        people, addresses = [], []
        for _ in range(count):
            number = self.next_customer
            self.next_customer += 1
            self.customers.append(number)
            people.append(self._customer(number))
            addresses += [self._address(number) for _ in range(self.random.randint(1, 2))]
        with self.session.transaction(now) as session:
            session.insert("customers", people)
            session.insert("addresses", addresses)

    def _customer(self, number: int) -> dict[str, object]:
        random = self.random
        return {
            "id": number,
            "email": f"customer{number}@shop.example",
            "name": words.person(random),
            "nickname": random.choice((None, None, random.choice(words.ODD))),
            "interests": random.choice((None, "", "garden", "kitchen,toys", "garden,kitchen,books,toys,outdoor")),
            "birthday": None if random.random() < 0.3 else f"{random.randint(1930, 2008)}-0{random.randint(1, 9)}-11",
            "credit": f"{random.uniform(-50, 50):.2f}",
            "newsletter": random.randint(0, 1),
            "preferences": random.choice((None, "{}", '{"lang": "de", "dark": true}', '{"tags": ["a", "b 😀"]}')),
        }

    def _address(self, customer: int) -> dict[str, object]:
        random, number = self.random, self.next_address
        self.next_address += 1
        abroad = random.random() < 0.2
        return {
            "id": number,
            "customer_id": customer,
            "kind": random.choice((None, "billing", "shipping")),
            "street": words.street(random),
            "city": None if abroad else words.city(random),
            "city_local": words.city_local(random) if abroad else None,
            "country": "CN" if abroad else random.choice(("DE", "FR", "ES", "DK")),
            "latitude": None if random.random() < 0.4 else random.uniform(-90, 90),
            "longitude": None if random.random() < 0.4 else random.uniform(-180, 180),
        }

    def order_is_placed(self, now: float) -> None:
        """Insert an order over five tables."""
        random, number = self.random, self.next_order
        self.next_order += 1
        lines = random.sample(self.skus, k=random.randint(1, 7))
        items = [
            {
                "order_id": number,
                "line_number": line,
                "sku": sku,
                "quantity": random.randint(1, 9),
                "unit_price": f"{random.uniform(0.5, 900):.4f}",
                "discount": None if random.random() < 0.7 else random.random(),
                "gift_text": words.remark(random) if random.random() < 0.2 else None,
            }
            for line, sku in enumerate(lines, start=1)
        ]
        self.orders.append(number)
        with self.session.transaction(now) as session:
            session.insert("orders", [self._order(number, now)])
            session.insert("order_items", items)
            session.run(
                "UPDATE inventory SET reserved = reserved + 1, quantity = quantity - 1 WHERE warehouse = %s AND sku IN %s",
                random.choice(WAREHOUSES),
                lines,
            )
            if random.random() < 0.8:
                session.insert("payments", [self._payment(number)])
            self._log("order placed", number)

    def _order(self, number: int, now: float) -> dict[str, object]:
        return {
            "id": number,
            "customer_id": self.random.choice(self.customers),
            "status": "placed",
            "total": f"{self.random.uniform(1, 5000):.2f}",
            "currency": self.random.choice(("EUR", "DKK", "CNY")),
            "note": words.remark(self.random),
            "placed_at": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S}.{self.random.randint(0, 999):03d}",
        }

    def _payment(self, order: int) -> dict[str, object]:
        # Sequential ids that end in zero bytes now and then, as packed binary keys do.
        key = self.next_payment.to_bytes(12, "big") + self.random.choice((b"\0\0\0\0", b"\x01\0\0\0", b"abcd"))
        self.next_payment += 1
        return {
            "id": key,
            "order_id": order,
            "method": self.random.choice(_METHODS),
            "amount": f"{self.random.uniform(1, 5000):.2f}",
            "token": None if self.random.random() < 0.3 else words.some_bytes(self.random, 48),
            "paid_after": None
            if self.random.random() < 0.3
            else f"{self.random.randint(0, 200)}:05:0{self.random.randint(0, 9)}.250",
        }

    def _log(self, action: str, subject: int | None, *, copies: int = 1) -> None:
        row = {
            "actor": self.random.choice((None, "web", "staff")),
            "action": action,
            "subject": subject,
            "detail": None,
        }
        now = "CURRENT_TIMESTAMP(6)"
        marks = ", ".join([f"({now}, %s, %s, %s, %s)"] * copies)
        self.session.run(
            f"INSERT INTO audit_log (happened_at, actor, action, subject, detail) VALUES {marks}",
            *list(row.values()) * copies,
        )

    def orders_are_shipped(self, now: float) -> None:
        """Update some recent orders by one statement."""
        batch = self._recent(self.orders, 6)
        if batch:
            with self.session.transaction(now) as session:
                session.run("UPDATE orders SET status = 'shipped', shipped_at = NOW(6) WHERE id IN %s", batch)
                self._log("orders shipped", len(batch), copies=self.random.randint(1, 3))

    def order_is_cancelled(self, now: float) -> None:
        """Delete an order, its items and its payments, and put the stock back."""
        if not self.orders:
            return
        order = self.orders.pop(self.random.randrange(len(self.orders)))
        with self.session.transaction(now) as session:
            session.run(
                "UPDATE inventory i JOIN order_items o ON o.sku = i.sku SET i.quantity = i.quantity + o.quantity "
                "WHERE o.order_id = %s AND i.warehouse = %s",
                order,
                self.random.choice(WAREHOUSES),
            )
            session.run("DELETE FROM order_items WHERE order_id = %s", order)
            session.run("DELETE FROM payments WHERE order_id = %s", order)
            session.run("DELETE FROM orders WHERE id = %s", order)
            self._log("order cancelled", order)

    def prices_change(self, now: float) -> None:
        """Update all products of a category."""
        with self.session.transaction(now) as session:
            session.run(
                "UPDATE products SET price = price * %s, changed_at = NOW() WHERE category_id = %s",
                self.random.choice((0.9, 0.95, 1.07)),
                self.random.randint(1, self.categories),
            )

    def goods_arrive(self, now: float) -> None:
        """Insert new stock, or add to stock that is there."""
        house = self.random.choice(WAREHOUSES)
        rows = [
            {"warehouse": house, "sku": sku, "quantity": self.random.randint(1, 80), "counted_on": "2026-01-05"}
            for sku in self.random.sample(self.skus, k=8)
        ]
        with self.session.transaction(now) as session:
            session.insert(
                "inventory",
                rows,
                suffix="ON DUPLICATE KEY UPDATE quantity = quantity + VALUES(quantity), counted_on = NULL",
            )

    def customer_changes(self, now: float) -> None:
        """Edit a customer's profile."""
        customer = self.random.choice(self.customers)
        with self.session.transaction(now) as session:
            session.run(
                "UPDATE customers SET nickname = %s, status = %s, preferences = %s WHERE id = %s",
                self.random.choice((None, *words.ODD)),
                self.random.choice(("active", "blocked", "left")),
                self.random.choice((None, "[]", '{"v": 2}')),
                customer,
            )

    def points_are_given(self, now: float) -> None:
        """Give loyalty points to some customers; only after the column was added."""
        with self.session.transaction(now) as session:
            session.run(
                "UPDATE customers SET loyalty_points = COALESCE(loyalty_points, 0) + %s WHERE id IN %s",
                self.random.choice((0, 10, 250, 4_000_000)),
                self.random.sample(self.customers, k=min(5, len(self.customers))),
            )

    def customer_is_renumbered(self, now: float) -> None:
        """Change a primary key; addresses follow."""
        position = self.random.randrange(len(self.customers))
        old, new = self.customers[position], self.next_customer + 3_000_000_000
        self.next_customer += 1
        self.customers[position] = new
        with self.session.transaction(now) as session:
            session.run("UPDATE customers SET id = %s WHERE id = %s", new, old)
            session.run("UPDATE addresses SET customer_id = %s WHERE customer_id = %s", new, old)

    def sku_is_renamed(self, now: float) -> None:
        """Change a text key, alone and as a part of composite keys."""
        position = self.random.randrange(len(self.skus))
        old = self.skus[position]
        new = f"{old}/R" if len(old) < 36 else f"R-{self.next_sku:05d}"
        self.next_sku += 1
        self.skus[position] = new
        with self.session.transaction(now) as session:
            for table in ("products", "inventory", "order_items"):
                session.run(f"UPDATE {table} SET sku = %s WHERE sku = %s", new, old)

    def skus_are_swapped(self, now: float) -> None:
        """Exchange the keys of two rows by way of a third key."""
        one, other = self.random.sample(self.skus, k=2)
        with self.session.transaction(now) as session:
            for new, old in (("swap", one), (one, other), (other, "swap")):
                session.run("UPDATE products SET sku = %s WHERE sku = %s", new, old)

    def categories_shift(self, now: float) -> None:
        """Move all categories from a place on up by one, by one statement, for a new category."""
        place = self.random.randint(2, self.categories)
        with self.session.transaction(now) as session:
            session.run("UPDATE categories SET id = id + 1 WHERE id >= %s ORDER BY id DESC", place)
            session.insert(
                "categories",
                [
                    {
                        "id": place,
                        "parent_id": None,
                        "title": f"new at {place} ✨",
                        "sort_weight": self.random.random() * 1e-5,
                    }
                ],
            )
        self.categories += 1

    def row_is_replaced(self, now: float) -> None:
        """Delete and insert a key in one transaction, and once more by REPLACE."""
        if not self.orders:
            return
        order = self.random.choice(self.orders)
        with self.session.transaction(now) as session:
            session.run("DELETE FROM orders WHERE id = %s", order)
            session.insert("orders", [self._order(order, now)])
            session.insert("orders", [self._order(order, now)], verb="REPLACE")

    def log_is_tidied(self, now: float) -> None:
        """Delete one of several equal rows of the table without a key, and change others."""
        with self.session.transaction(now) as session:
            self._log("tidy", None, copies=3)
            session.run("DELETE FROM audit_log WHERE action = 'tidy' LIMIT 2")
            session.run(
                "UPDATE audit_log SET detail = %s WHERE action = 'order cancelled' LIMIT 3", words.remark(self.random)
            )

    def gallery_grows(self, now: float, *, count: int = 2) -> None:
        """Insert rows of every type."""
        rows = [{"id": self._next_gallery_id(), **gallery.row(self.random)} for _ in range(count)]
        with self.session.transaction(now) as session:
            session.insert("type_gallery", rows)

    def _next_gallery_id(self) -> int:
        number = self.next_gallery if self.next_gallery % 3 else -self.next_gallery
        self.next_gallery += 1
        self.gallery_ids.append(number)
        return number

    def gallery_changes(self, now: float) -> None:
        """Change every column of a row, or delete the row."""
        if not self.gallery_ids:
            return
        number = self.random.choice(self.gallery_ids)
        with self.session.transaction(now) as session:
            if self.random.random() < 0.15:
                self.gallery_ids.remove(number)
                session.run("DELETE FROM type_gallery WHERE id = %s", number)
            else:
                values = gallery.row(self.random)
                assignments = ", ".join(f"`{name}` = %s" for name in values)
                session.run(f"UPDATE type_gallery SET {assignments} WHERE id = %s", *values.values(), number)

    def coupons_change(self, now: float) -> None:
        """Insert, use, rename (in case only: equal to the database, other bytes) or delete a coupon."""
        code = f"Save{self.random.randint(1, 60)}é"
        with self.session.transaction(now) as session:
            session.insert(
                "coupons",
                [{"code": code, "percent": self.random.choice((None, 5, 200)), "valid_until": "2026-02-01 00:00:00"}],
                suffix="ON DUPLICATE KEY UPDATE used = used + 1",
            )
            if self.random.random() < 0.3:
                session.run("UPDATE coupons SET code = UPPER(code) WHERE code = %s", code)
            elif self.random.random() < 0.3:
                session.run("DELETE FROM coupons WHERE code = %s", code)

    def document_is_written(self, now: float, number: int, *, size: int) -> None:
        """Insert a document of about ``size`` characters."""
        row = {
            "id": number,
            "title": f"Terms № {number}",
            "body": words.long_text(self.random, size),
            "attachment": None if number % 3 else bytes(range(256)) * 64,
        }
        with self.session.transaction(now) as session:
            session.insert("documents", [row])

    def documents_are_revised(self, now: float, numbers: Iterable[int]) -> None:
        """Change several documents in one transaction, so that it takes long to send."""
        with self.session.transaction(now) as session:
            for number in numbers:
                session.run(
                    "UPDATE documents SET body = CONCAT(%s, body), revision = revision + 1 WHERE id = %s",
                    words.long_text(self.random, 200),
                    number,
                )

    def _recent(self, keys: list[int], count: int) -> list[int]:
        recent = keys[-60:]
        return self.random.sample(recent, k=min(count, len(recent)))
