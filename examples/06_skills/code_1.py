# Task: Read the sales of a year from a file and sum the amount by region
# Saves a function as a skill, after it has worked once.
SKILL = '''
import csv

from servers import files


def sum_by(path, key, amount):
    """Sum a column of a CSV file by the values of another one."""
    totals = {}
    for row in csv.DictReader(files.read_file(path=path)["content"].splitlines()):
        totals[row[key]] = totals.get(row[key], 0) + float(row[amount])
    return dict(sorted(totals.items()))
'''
exec(SKILL)
result = sum_by("2024.csv", "region", "amount")
print(save_skill("sum_by", SKILL, "Sum a column of a CSV file by the values of another one", tags=["csv"]))
