# Task: Read the CSV files of a directory, sum their amounts and write the totals to a file
# Works on two file systems: the directory of a server, and the workspace, which only
# code and its tenant see.
import csv
from pathlib import Path

from servers import files

totals = {}
names = [line.removeprefix("[FILE] ") for line in files.list_directory(path="inbox")["content"].splitlines()]
files.create_directory(path="done")
for name in sorted(names):
    if name.endswith(".csv"):
        text = files.read_text_file(path=f"inbox/{name}")["content"]
        totals[name] = sum(float(row["amount"]) for row in csv.DictReader(text.splitlines()))
        Path("receipts").mkdir(exist_ok=True)
        Path("receipts", name).write_text(text)  # /workspace/receipts
        files.move_file(source=f"inbox/{name}", destination=f"done/{name}")
files.write_file(path="total.txt", content=f"{sum(totals.values()):.2f}\n")

result = {
    "totals": totals,
    "total.txt": files.read_text_file(path="total.txt")["content"].strip(),
    "inbox": files.list_directory(path="inbox")["content"],
    "workspace": list_files("receipts"),
}
