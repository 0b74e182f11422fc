# Summarizes 10,000 orders. A model sees only the printed line and the result.
orders = json.loads(read_file("large_dataset.json"))
active = filter_by_field(orders, "status", "active")

by_region = collections.Counter()
for order in active:
    by_region[order["region"]] += order["amount"]

print(f"{len(orders):,} orders read, {len(active):,} of them active")
result = {
    "total": len(orders),
    "active": len(active),
    "revenue_by_region": {region: round(sum_, 2) for region, sum_ in by_region.most_common()},
    "median_amount": statistics.median(order["amount"] for order in active),
    "largest": sorted(active, key=lambda order: -order["amount"])[:3],
}
