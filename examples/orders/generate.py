# Writes large_dataset.json: 10,000 orders with fixed content.
# Run it with: sandpiper exec examples/orders/generate.py && sandpiper files cat large_dataset.json
import random

rng = random.Random(20260610)
REGIONS = ["north", "south", "east", "west"]
PRODUCTS = {"lamp": 39.0, "desk": 310.0, "chair": 129.5, "shelf": 88.25, "rug": 61.0}
day0 = date(2025, 1, 1)

rows = []
for i in range(10_000):
    product = rng.choice(list(PRODUCTS))
    quantity = 1 + int(rng.expovariate(0.8))
    rows.append({
        "id": i + 1,
        "status": rng.choices(["active", "shipped", "cancelled"], [35, 55, 10])[0],
        "region": rng.choice(REGIONS),
        "product": product,
        "quantity": quantity,
        "amount": round(PRODUCTS[product] * quantity * rng.uniform(0.85, 1.1), 2),
        "ordered": (day0 + timedelta(days=rng.randrange(500))).isoformat(),
    })

write_file("large_dataset.json", "[" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "]\n")
result = summarize_list(rows, limit=2)
