# workflow ship

import servers
jump = None
pay = None
pay_error = None
ship = None
label = None
receipt = None
notify = None

pay_error = None
try:
    pay = servers.shop.pay()
except Exception as error:
    pay = None
    print(f"step pay failed: {error}")
    pay_error = str(error)
    jump = "notify"
if jump is None:
    ship, label = parallel(
        lambda: servers.shop.ship(),
        lambda: servers.shop.label(),
    )

    receipt = servers.shop.receipt()
if jump == "notify":
    jump = None
if jump is None:
    notify = servers.mail.send(text=pay_error or 'paid')

result = notify
