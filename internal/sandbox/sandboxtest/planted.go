package sandboxtest

const (
	intact        = "A mount is placed at its target or not at all."
	neverFollowed = "links at mount points are not followed in any configuration"
)

// planted returns attacks that place entries at the mount points of the next sandbox.
func planted() []Case {
	skills := []Mount{{Target: "/workspace/skills"}}
	var cases []Case
	for _, trap := range []struct{ name, code string }{
		{"a link to /etc", `os.symlink("/etc", "/workspace/skills")`},
		{"a link to the root", `os.symlink("/", "/workspace/skills")`},
		{"a link to the interpreter", `os.symlink("/python", "/workspace/skills")`},
		{"a link to the keeper's roots", `os.symlink("/.roots/workspaces", "/workspace/skills")`},
		{"a link to ..", `os.symlink("..", "/workspace/skills")`},
		{"a link to itself", `os.symlink("skills", "/workspace/skills")`},
		{"a link to a link", `os.symlink("/tmp", "/workspace/a"); os.symlink("a", "/workspace/skills")`},
		{"a file", `open("/workspace/skills", "w").close()`},
		{"nothing", `pass`},
	} {
		cases = append(cases, Case{Name: "at a mount point: " + trap.name, Promise: intact, NotShown: neverFollowed, Steps: []Step{
			{By: "mallory", Code: trap.code, End: true},
			{By: "mallory/2", Mounts: skills, MayNotOpen: true, Code: findMisplaced},
		}})
	}
	return append(cases,
		Case{Name: "at a mount point: a race", Promise: intact, NotShown: neverFollowed, Steps: []Step{
			{By: "mallory", Code: `
import threading
os.mkdir("/workspace/skills"); os.symlink("/etc", "/workspace/other")
def swap():
    while True:
        try: kernel("renameat2", -100, b"/workspace/skills", -100, b"/workspace/other", 2)
        except OSError:
            for old, new in (("skills", "dir"), ("other", "skills"), ("skills", "other"), ("dir", "skills")):
                os.rename("/workspace/" + old, "/workspace/" + new)
threading.Thread(target=swap, daemon=True).start()
result = {"note": "swapping"}`},
			{By: "mallory/2", Mounts: skills, MayNotOpen: true, Repeat: 25, Code: findMisplaced},
		}},
		Case{Name: "a read-only mount", Promise: "Code cannot change a read-only mount.",
			NotShown: "the mount is read-only in every configuration", Steps: []Step{
				{By: "mallory", Code: `os.mkdir("/workspace/skills")`, End: true},
				{By: "mallory/2", Mounts: []Mount{{Target: "/workspace/skills", ReadOnly: true}}, Code: `
got = []
for f in (lambda: open("/workspace/skills/new", "w"), lambda: open("/workspace/skills/marker", "a"), lambda: os.unlink("/workspace/skills/marker"),
          lambda: os.chmod("/workspace/skills/marker", 0o666), lambda: os.rename("/workspace/skills/marker", "/workspace/marker"),
          lambda: os.rename("/workspace/skills", "/workspace/moved"), lambda: os.rmdir("/workspace/skills"), lambda: os.link("/workspace/skills/marker", "/workspace/hard"),
          lambda: kernel("mount", None, b"/workspace/skills", None, 32 | 4096, None), lambda: os.utime("/workspace/skills/marker"), lambda: os.mkdir("/workspace/skills/d")):
    try: f(); got.append(True)
    except OSError: got.append(False)
assert open("/workspace/skills/marker").read() == "marker"
result = got if any(got) else []`},
			}},
		Case{Name: "removal of a mount point in use", Promise: "Code that removes its mount point sees only its own directory.",
			NotShown: "code is allowed to do this", Steps: []Step{
				{By: "mallory", Code: `os.mkdir("/workspace/skills")`},
				{By: "mallory/2", Mounts: skills, Code: `result = {"note": sorted(os.listdir("/workspace/skills"))}`},
				{By: "mallory", Code: `os.rename("/workspace/skills", "/workspace/gone"); os.symlink("/", "/workspace/skills")`},
				{By: "mallory/2", Code: `
names = sorted(os.listdir("/workspace/skills"))
result = names if "shadow" in names or "root" in names else []`},
			}},
	)
}

// findMisplaced searches for a mount with a file named marker at any other place.
const findMisplaced = `
wrong = [p for p in ("/etc", "/", "/python", "/tmp", "/workspace", "/dev/shm") if os.path.exists(p + "/marker")]
if not os.path.exists("/etc/passwd") or not os.path.exists("/python/bin"): wrong.append("hidden")
result = wrong`
