# workflow ship

import servers

steps, inputs = workflow.begin(inputs)
jump = None
steps.pay = None
steps.ship = None
steps.label = None
steps.receipt = None
steps.notify = None

try:
    steps.pay = servers.shop.pay()
except Exception as error:
    steps.pay = workflow.failed("pay", error)
    jump = "notify"
if jump is None:
    steps.ship, steps.label = parallel(
        lambda: servers.shop.ship(),
        lambda: servers.shop.label(),
    )

    steps.receipt = servers.shop.receipt()
if jump == "notify":
    jump = None
if jump is None:
    steps.notify = servers.mail.send(text=steps.pay.error or 'paid')

result = steps.notify.result
