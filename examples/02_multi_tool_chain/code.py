# Task: Read the deliveries from a file, query them in the database, get the forecast of each city and calculate the price
# Finds deliveries to delay because of thunderstorms, from a file, a database, forecasts
# and a calculator. The model sees only the result.
import csv

from servers import db, files, weather
from servers.calculator import calculate

text = files.read_file(path="deliveries.csv")["content"]
deliveries = list(csv.DictReader(text.splitlines()))

db.execute(sql="DROP TABLE IF EXISTS deliveries")
db.execute(sql="CREATE TABLE deliveries (id INTEGER PRIMARY KEY, city TEXT, day INTEGER, kg REAL)")
for start in range(0, len(deliveries), 100):
    part = deliveries[start:start + 100]
    db.execute(
        sql="INSERT INTO deliveries VALUES " + ", ".join(["(?, ?, ?, ?)"] * len(part)),
        parameters=[v for d in part for v in (int(d["id"]), d["city"], int(d["day"]), float(d["kg"]))],
    )
loads = db.query(sql="SELECT city, day, count(*) AS n, sum(kg) AS kg FROM deliveries GROUP BY city, day")["rows"]

cities = sorted({row["city"] for row in loads})
forecasts = parallel(*(lambda c=c: weather.get_forecast(city=c, days=7) for c in cities))
condition = {(f["city"], d["day"]): d["condition"] for f in forecasts for d in f["days"]}

late = [row for row in loads if condition[row["city"], row["day"]] == "thunderstorm"]
kg = sum(row["kg"] for row in late)
worst = collections.Counter()
for row in late:
    worst[row["city"]] += row["kg"]
result = {
    "deliveries": len(deliveries),
    "wait_for_thunderstorms": sum(row["n"] for row in late),
    "kg": kg,
    "storage_eur": calculate(expression=f"{kg} * 0.35 * (1 + 0.19)")["result"],
    "most_kg": [f"{city}: {n:g}" for city, n in worst.most_common(3)],
}
