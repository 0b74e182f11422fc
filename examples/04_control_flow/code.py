# Task: Get the forecast of each city in a file, calculate the price of a tour and write the plans to a file
# Handles errors of tools: by their message it retries with other arguments, skips, or
# takes another branch. The model sees the outcome, not the attempts.
from servers import files, weather
from servers.calculator import calculate

failed = []  # tools, from all threads


def forecast(city, lengths=(30, 21, 14)):
    """Return the longest available forecast; retry with fewer days if the tool refuses."""
    for days in lengths:
        try:
            return weather.get_forecast(city=city, days=days)["days"]
        except ToolError as e:
            failed.append(e.tool)
            if "days" not in str(e):
                raise  # fewer days would not help
    raise LookupError(f"no forecast for {city}")


def plan(city):
    """Return a city's driest week and the price of a tour, or None for an unknown city."""
    try:
        if not city.strip():
            weather.get_weather(city=city)  # refused: an empty name
        days = forecast(city)
    except ToolError as e:
        failed.append(e.tool)
        return None
    weeks = [days[i:i + 7] for i in range(len(days) - 6)]
    dry, start = max((sum(d["condition"] not in ("rain", "thunderstorm") for d in w), -i) for i, w in enumerate(weeks))
    try:
        eur = calculate(expression=f"900 / ({dry} - 4)")["result"]
    except ToolError:  # an expected division by zero
        failed.append("calculate")
        eur = 900
    return {"city": city, "from_day": 1 - start, "dry": dry, "eur": eur}


cities = files.read_file(path="cities.txt")["content"].splitlines()
plans = [p for p in parallel(*(lambda c=c: plan(c) for c in cities)) if p]

try:
    before = files.read_file(path="out/plans.json")["content"]
except ToolError as e:  # the file does not exist on the first run
    failed.append(e.tool)
    before = "[]"
changed = json.loads(before) != plans
if changed:
    files.write_file(path="out/plans.json", content=json.dumps(plans))

result = {
    "cities": len(cities),
    "planned": len(plans),
    "refused_calls": dict(sorted(collections.Counter(failed).items())),
    "changed": changed,
    "best": sorted(plans, key=lambda p: (-p["dry"], p["eur"], p["city"]))[:3],
}
