# Copies 10,000 contacts from a sheet to a CRM. The tool receives the values of the
# sheet; the model sees a token for each name, address and number.
from servers import crm, sheets

PAGE = 1000
total = next(s["rows"] for s in sheets.list_sheets()["sheets"] if s["name"] == "customers")
rows = []
for page in parallel(*(lambda start=start: sheets.read_rows(sheet="customers", offset=start, limit=PAGE) for start in range(0, total, PAGE))):
    rows += page["rows"]

COLUMNS = ["name", "email", "phone", "address", "ssn", "social_security_number", "card", "iban", "last_ip", "notes"]


def contact(row):
    return {c: row[c] for c in COLUMNS} | {"segment": "large" if row["spent"] >= 2500 else "small"}


contacts = [contact(row) for row in rows]
changes = parallel(*(lambda start=start: crm.upsert_many(contacts=contacts[start:start + PAGE]) for start in range(0, total, PAGE)))

best = sorted(rows, key=lambda row: -row["spent"])
print("first of all:", rows[0]["name"], rows[0]["email"], rows[0]["notes"])
print(best[0])
result = {
    "rows": len(rows),
    "created": sum(c["created"] for c in changes),
    "in_crm": crm.count()["contacts"],
    "large": sum(c["segment"] == "large" for c in contacts),
    "best": [contact(row) for row in best[:3]],
}
