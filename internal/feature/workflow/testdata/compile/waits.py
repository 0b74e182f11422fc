# workflow waits

steps, inputs = workflow.begin(inputs)

steps.soon = sleep_for(129600)

steps.later = sleep_until("2026-12-31T09:00:00+01:00")

try:
    steps.paid = wait_for(f"paid {inputs.days}", timeout=inputs.days * 86400)
except Exception as error:
    steps.paid = workflow.failed("paid", error)

steps.permit = None
if steps.paid.result:
    steps.permit = step("permit", lambda: workflow.repeat(2, 3600, lambda: workflow.fill_form(
        file="permit.pdf",
        data=steps.paid.result,
        save_as=f"forms/{steps.paid.result.id}.pdf",
        ask=False,
    )))

def run_each():
    for item in workflow.each("each", [1, 2], 100000):
        steps.pause = sleep_for(item)

steps.each = step("each", run_each)

result = {"why": steps.paid.error, "each": steps.each.result}
