# workflow waits

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

def fill_form(file, save_as, data=None, **options):
    """Fill in a form, and save the filled copy as another file."""
    form = forms.open(file).fill(data, **options)
    form.save(save_as)
    return {"file": save_as, "values": form.values, "unused": form.unused, "review": form.review()}

soon = sleep_for(129600)

later = sleep_until("2026-12-31T09:00:00+01:00")

paid_error = None
try:
    paid = wait_for(f"paid {inputs["days"]}", timeout=(inputs["days"] * 86400))
except Exception as error:
    paid = None
    print(f"step paid failed: {error}")
    paid_error = str(error)

permit = None
if paid:
    permit = step("permit", lambda: repeat_step(2, 3600, lambda: fill_form(file="permit.pdf", data=paid, save_as=f"forms/{paid["id"]}.pdf", ask=False)))

def run_each():
    for count, item in enumerate([1, 2]):
        if count == 100000:
            raise RuntimeError("loop each has more than 100000 iterations; raise max_iterations")

        pause = sleep_for(item)

each = step("each", run_each)

result = {"why": paid_error, "each": each}
