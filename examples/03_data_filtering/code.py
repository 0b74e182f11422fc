# Task: Query the paid orders in the database and group them by region
# Reads 10,000 rows through a tool, in pages of at most 1,000, and returns a few lines.
from servers.db import query

orders, last = [], 0
while True:
    page = query(sql="SELECT * FROM orders WHERE id > ? ORDER BY id LIMIT 1000", parameters=[last])["rows"]
    if not page:
        break
    orders += page
    last = page[-1]["id"]

paid = filter_by_field(orders, "status", "paid")
by_region = collections.defaultdict(list)
by_customer = collections.Counter()
for order in paid:
    by_region[order["region"].strip()].append(order["amount"])
    by_customer[order["customer"]] += order["amount"]

result = {
    "rows": len(orders),
    "paid": len(paid),
    "regions": {
        name: {"orders": len(a), "sum": round(sum(a), 2), "median": round(statistics.median(a), 2), "p95": round(statistics.quantiles(a, n=20)[-1], 2)}
        for name, a in sorted(by_region.items())
    },
    "best_customers": [f"{name}: {total:.2f}" for name, total in by_customer.most_common(3)],
}
