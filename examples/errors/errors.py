# Plans with tools that refuse: errors are caught, told by their words, tried again
# with what helps, or branched upon. The model sees the outcome, not the attempts.
from servers import files, weather
from servers.calculator import calculate

failed = []  # tools, from all threads


def forecast(city, wishes=(30, 21, 14)):
    """The longest forecast that there is: a refused number of days is tried lower."""
    for days in wishes:
        try:
            return weather.get_forecast(city=city, days=days)["days"]
        except ToolError as e:
            failed.append(e.tool)
            if "days" not in str(e):
                raise  # fewer days would not help
    raise LookupError(f"no forecast for {city}")


def plan(city):
    """A city's driest week and what a tour costs there; None if nobody knows the city."""
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
    except ToolError:  # division by zero: a branch, no accident
        failed.append("calculate")
        eur = 900
    return {"city": city, "from_day": 1 - start, "dry": dry, "eur": eur}


cities = files.read_file(path="cities.txt")["content"].splitlines()
plans = [p for p in parallel(*(lambda c=c: plan(c) for c in cities)) if p]

try:
    before = files.read_file(path="out/plans.json")["content"]
except ToolError as e:  # the first time there is none
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
