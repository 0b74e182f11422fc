# Creates a table of 10,000 orders with fixed content.
from servers.db import execute

execute(sql="DROP TABLE IF EXISTS orders")
execute(sql="CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, region TEXT, status TEXT, amount REAL, ordered TEXT)")
made = execute(sql="""
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
    INSERT INTO orders SELECT i,
      'customer-' || (i * 7919 % 613),
      substr('northsoutheast west ', 1 + 5 * (i * 31 % 4), 5),
      CASE i * 17 % 10 WHEN 0 THEN 'cancelled' WHEN 1 THEN 'open' WHEN 2 THEN 'open' ELSE 'paid' END,
      (i * 104729 % 99991) / 100.0,
      date('2026-01-01', '+' || (i * 13 % 270) || ' days')
    FROM n""")
result = f"{made['rows_affected']} orders"
