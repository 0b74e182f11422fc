# Task: Get the forecast of some cities and keep notes in the memory graph
# Fetches the forecasts of ten cities, as if it had been interrupted after that.
from servers import memory, weather

CITIES = "Aarhus Basel Coimbra Dresden Evora Firenze Ghent Halle Ibiza Jena Kiel Linz Malaga Nantes Oslo Porto Quimper Riga Split Torino".split()
write_file("cities.json", json.dumps(CITIES))  # a file of the workspace

highs = {}
for city in CITIES[:10]:
    highs[city] = max(day["high_c"] for day in weather.get_forecast(city=city, days=14)["days"])
    save_state("highs", highs)  # on disk when it returns
memory.create_entities(entities=[{"name": "Aarhus", "entityType": "station", "observations": ["needs a new battery"]}])
result = f"{len(highs)} of {len(CITIES)} cities"
