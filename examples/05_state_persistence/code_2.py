# Another execution, perhaps days later, fetches the others and repeats no call.
from servers import memory, weather

highs = get_state("highs", {})
before = len(highs)
for city in json.loads(read_file("cities.json")):
    if city not in highs:
        highs[city] = max(day["high_c"] for day in weather.get_forecast(city=city, days=14)["days"])
        save_state("highs", highs)
write_file("report.csv", "".join(f"{city},{high}\n" for city, high in highs.items()))

result = {
    "cities_before": before,
    "cities_now": len(highs) - before,
    "warmest": max(highs, key=highs.get),
    "remembered": memory.open_nodes(names=["Aarhus"])["entities"][0]["observations"],
}
