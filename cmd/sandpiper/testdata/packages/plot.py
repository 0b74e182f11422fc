import os
import sys

there = sorted({"pandas", "matplotlib.pyplot"} & set(sys.modules))

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image

df = pd.read_csv("sales.csv", parse_dates=["when"])
fig, ax = plt.subplots(figsize=(6, 3))
df.groupby([df.when.dt.month, "city"]).price.sum().unstack().plot(kind="bar", ax=ax, title="Sales by month")
show(fig)
show(Image.new("RGB", (40, 30), "red"))
result = {
    "there": there,
    "bytes": os.stat("sales.csv").st_size,
    "rows": len(df),
    "top": df.groupby("city")[["price"]].sum(),
    "odd": [pd.NaT, float("nan"), pd.Timestamp("2024-01-02T03:04:05"), np.float32(1.5), pd.Series([1], index=["a"]), np.array([[1, 2], [3, np.nan]])],
}
