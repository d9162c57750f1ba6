"""Flat messages: JSON with rows in ``data`` and ``old``, a form that DRS took over from Canal.

``{"id": 7, "database": "shopdb", "table": "orders", "type": "INSERT", "mysqlType": {"id": "int"}, "data": [{"id": "1"}], ...}``
"""
