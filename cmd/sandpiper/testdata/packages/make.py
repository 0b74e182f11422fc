with open("sales.csv", "w") as f:
    f.write("id,note,price,when,city\n")
    for i in range(600_000):
        f.write(f"{i},order number {i % 977},0.75,2024-{i % 12 + 1:02d}-{i % 28 + 1:02d},{('Bern', 'Oslo', 'Lima')[i % 3]}\n")
