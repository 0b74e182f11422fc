# workflow orders
# version 2
# Checks open orders, and asks before refunds.

import servers
from skills import report

def repeat_step(attempts, seconds, work):
    """Call work until it succeeds, waiting seconds, then twice as long, and so on.

    It is not called again if a call in it failed and may have taken effect.
    """
    for attempt in range(attempts - 1):
        try:
            with ToolError.watch() as unknown:
                return work()
        except Exception as error:
            if unknown or ToolError.may_have_effect(error):
                raise
            print(f"attempt {attempt + 1} of {attempts} failed: {error}")
            sleep_for(seconds * 2**attempt)
    return work()

def approve(question):
    """Ask a person for approval, and raise an error without it."""
    if not ask(question, {"type": "boolean"}):
        raise PermissionError(f"not approved: {question}")
    return True

orders = repeat_step(3, 2, lambda: time_limit(20, lambda: servers.shop.list_orders(shop=inputs["shop"], from_="2026-01-01", max=inputs["limit"])))

try:
    rates = servers.shop.rates()
except Exception as error:
    rates = None
    print(f"step rates failed: {error}")

def run_late(rows, rates):
    result = None
    text = """Late
orders"""
    result = [r for r in rows if r["late"]]
    return result

late = step("late", lambda: time_limit(0.5, lambda: run_late(rows=orders["rows"], rates=rates or {})))

if len(late) > 0:
    jump = None
    sure = None
    sure_error = None
    refunds = None
    tell = None

    sure_error = None
    try:
        sure = approve(f"Refund {len(late)} orders of {inputs["shop"]}?")
    except Exception as error:
        sure = None
        print(f"step sure failed: {error}")
        sure_error = str(error)
        jump = "tell"
    if jump is None:
        def run_refunds():
            collected = []
            for count, order in enumerate(late):
                if count == 50:
                    raise RuntimeError("loop refunds has more than 50 iterations; raise max_iterations")

                refund = None
                if order["total"] < 100 and sure:
                    refund = servers.shop.refund(order=order["id"], note=f'{order["name"]}: {rates}')
                collected.append(refund["id"])
            return collected

        refunds = step("refunds", run_refunds)
    if jump == "tell":
        jump = None
    if jump is None:
        tell = servers.mail.send(
            to="a@example.com",
            text=f"refunded {refunds} of a {{list}} {({'a': 1}['a'])} {sure_error}",
        )
    decide = tell
else:
    decide = None

def run_list():
    def list_1():
        a = step("a", lambda: report(rows=late))
        result = a
        return result

    def list_2():
        def run_b():
            return 1

        b = step("b", run_b)
        result = b
        return result

    list_ = parallel(list_1, list_2)
    return list_

list_ = time_limit(60, run_list)

result = {"late": [r['id'] for r in late], "refunded": decide}
