package process

import "testing"

// TestImmortalObjectsAreNotCounted uses objects of the zygote in code that CPython has not
// specialized. Each change of a reference count would copy a page.
func TestImmortalObjectsAreNotCounted(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	spec := h.spec("a")
	h.run(b, spec, "1+1")
	b.zygoteNow().awaitSettled()
	const code = `
import _ctypes, os
class Word(_ctypes._SimpleCData): _type_ = "L"
for _ in range(3):
    os.getpid(), json.dumps({}), re.compile("a")
result = [Word.from_address(a).value & 0xFFFFFFFF == 3 << 30 for a in (id(os.getpid), id(json.dumps), id(re.compile))]`
	for range 10 { // some workers are older than the settled zygote
		if out := h.run(b, spec, code); string(out.Result) == "[true,true,true]" {
			return
		} else {
			t.Log(string(out.Result), out.Error)
		}
	}
	t.Error("objects of the zygote are counted")
}
