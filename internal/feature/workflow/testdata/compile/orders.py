# workflow orders
# version 2
# Checks open orders, and asks before refunds.

import servers
from skills import report as skill_report

steps, inputs = workflow.begin(inputs)

steps.orders = workflow.repeat(3, 2, lambda: time_limit(20, lambda: servers.shop.list_orders(shop=inputs.shop, from_="2026-01-01", max=inputs.limit)))

try:
    steps.rates = servers.shop.rates()
except Exception as error:
    steps.rates = workflow.failed("rates", error)

def run_late(rows, rates):
    result = None
    text = """Late
orders"""
    result = [r for r in rows if r["late"]]
    return result

steps.late = step("late", lambda: time_limit(0.5, lambda: run_late(rows=steps.orders.result.rows, rates=steps.rates.result or {})))

if len(steps.late.result) > 0:
    jump = None
    steps.sure = None
    steps.refunds = None
    steps.tell = None

    try:
        steps.sure = workflow.approve(f"Refund {len(steps.late.result)} orders of {inputs.shop}?")
    except Exception as error:
        steps.sure = workflow.failed("sure", error)
        jump = "tell"
    if jump is None:
        def run_refunds():
            collected = []
            for order in workflow.each("refunds", steps.late.result, 50):
                steps.refund = None
                if order.total < 100 and steps.sure.result:
                    steps.refund = servers.shop.refund(order=order.id, note=f'{order.name}: {steps.rates.result}')
                collected.append(steps.refund.result.id)
            return collected

        steps.refunds = step("refunds", run_refunds)
    if jump == "tell":
        jump = None
    if jump is None:
        steps.tell = servers.mail.send(
            to="a@example.com",
            text=f"refunded {steps.refunds.result} of a {{list}} {({'a': 1}['a'])} {steps.sure.error}",
        )
    steps.decide = steps.tell.result
else:
    steps.decide = None

def run_list():
    def run_list_1():
        steps.a = step("a", lambda: skill_report(rows=steps.late.result))
        return steps.a.result

    def run_list_2():
        def run_b():
            return 1

        steps.b = step("b", run_b)
        return steps.b.result

    steps.list = parallel(run_list_1, run_list_2)
    return steps.list

steps.list = time_limit(60, run_list)

result = {"late": [r['id'] for r in steps.late.result], "refunded": steps.decide.result}
