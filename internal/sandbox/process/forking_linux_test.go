package process

import "testing"

// TestForkHandlersRunInWorkers: the zygote forks without the handlers of the standard library. The main
// thread of a worker has its own id nevertheless, and when code forks, the handlers run.
func TestForkHandlersRunInWorkers(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	spec := h.spec("a")
	const code = `
import logging, os, threading, time
result = [threading.main_thread().native_id - threading.get_native_id(), len(threading.enumerate())]
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
locked = threading.Event()
def hold():
    with logging._lock:
        locked.set()
        time.sleep(0.1)
threading.Thread(target=hold).start()
locked.wait()
child = os.fork()
if child == 0:
    logging.getLogger("x").addHandler(logging.NullHandler())
    os._exit(10 * len(threading.enumerate()) + (threading.main_thread().native_id == threading.get_native_id()))
result.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))`
	check := func(state string) {
		if out := h.run(b, spec, code); string(out.Result) != "[0,1,11]" {
			t.Errorf("%s: %s %s", state, out.Result, out.Error)
		}
	}
	check("a worker that was forked early")
	b.zygoteNow().awaitSettled()
	for range 10 { // some workers are older than the settled zygote
		check("a worker of the settled zygote")
	}
}
