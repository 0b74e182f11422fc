package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// The places where the kind store overwrites a value repeatedly: a file by a tool, a file by code, and a
// skill. Steps of a session are added.
var places = []string{"file", "code", "skill", "session"}

// stored is the state of one place. Versions count from 1.
type stored struct{ acknowledged, begun int }

// versions of each place that a round writes.
const versionsStored = 15

// driveStore writes to all places at a time, after checking what is there.
func driveStore(ctx context.Context, r *round, d *rig.Daemon) error {
	if r.stored == nil {
		r.stored = map[string]*stored{}
		for _, p := range places {
			r.stored[p] = &stored{}
		}
	}
	if r.lives > 1 {
		if err := checkStored(ctx, r, d.Client); err != nil {
			return err
		}
	}
	var writers sync.WaitGroup
	errs := make([]error, len(places))
	for i, p := range places {
		s := r.stored[p]
		writers.Go(func() {
			for errs[i] == nil && s.begun < versionsStored {
				s.begun++
				if errs[i] = store(ctx, d.Client, p, s.begun); errs[i] == nil {
					s.acknowledged = s.begun
				}
			}
		})
	}
	writers.Wait()
	return errors.Join(errs...)
}

// store writes a version.
func store(ctx context.Context, c *rig.Client, place string, version int) error {
	text := content(place, version)
	tool, args := "execute_code", rig.Args{"code": sessionCode(version), "session_id": "chaos"}
	switch place {
	case "file":
		tool, args = "write_workspace_file", rig.Args{"filename": "chaos/file", "content": text}
	case "skill":
		tool, args = "save_skill", rig.Args{"name": "stored", "code": text}
	case "code":
		args = rig.Args{"code": "write_file('chaos/code', text)", "context_vars": rig.Args{"text": text}}
	}
	res, err := c.Call(ctx, tool, args)
	if err == nil && (res.Failed || strings.Contains(res.Text, `"success":false`)) {
		err = problemf("failed", "%s returned %.300s", tool, res.Text)
	}
	return err
}

func sessionCode(version int) string { return fmt.Sprint("result = ", version) }

// content returns the content of a version: valid Python of up to 100 KB.
func content(place string, version int) string {
	line := fmt.Sprintf("# %s %d ", place, version)
	size := 20 << rand.New(rand.NewPCG(uint64(version), uint64(len(place)))).IntN(12)
	return strings.Repeat(line, size/len(line)+1) + "\nvalue = 1\n"
}

// inspectCode returns digests of what is stored, and other files. A skill must be equal in the store and
// as a module.
const inspectCode = `
import hashlib, os

def digest(read, name):
    try:
        return hashlib.sha256(read(name).encode()).hexdigest()
    except (FileNotFoundError, ToolError):
        return ""

result = {"file": digest(read_file, "chaos/file"), "code": digest(read_file, "chaos/code"), "skill": digest(load_skill, "stored")}
if result["skill"] != digest(read_file, "skills/stored.py"):
    result["skill"] = "differs"
result["others"] = " ".join(f for f in list_files("chaos")) if os.path.isdir("chaos") else ""
`

// checkStored checks that each place has the version that was acknowledged, or the one in flight.
func checkStored(ctx context.Context, r *round, c *rig.Client) error {
	x, err := c.Execute(ctx, inspectCode, nil)
	if err != nil {
		return err
	}
	var found map[string]string
	if err := json.Unmarshal(x.Result, &found); err != nil {
		return fmt.Errorf("inspect the stored values: %s %w", x.Error, err)
	}
	for _, name := range strings.Fields(found["others"]) {
		if base := path.Base(name); base != "file" && base != "code" && !strings.HasPrefix(base, ".code") { // a temporary file of killed code
			return problemf("left", "the file %s", name)
		}
	}
	for _, p := range places {
		s, version := r.stored[p], -1
		if p == "session" {
			version, err = sessionSteps(ctx, r)
		} else {
			for _, v := range []int{s.acknowledged, s.begun} {
				if found[p] == fmt.Sprintf("%x", sha256.Sum256([]byte(content(p, v)))) || v == 0 && found[p] == "" {
					version = v
				}
			}
		}
		if err != nil {
			return err
		}
		if version < s.acknowledged || version > s.begun {
			return problemf("lost", "%s: version %d was acknowledged and %d begun, found %d", p, s.acknowledged, s.begun, version)
		}
		*s = stored{version, version}
	}
	return nil
}

// sessionSteps returns the number of steps of the session, which must be in order.
func sessionSteps(ctx context.Context, r *round) (int, error) {
	out, err := r.rig.Run(ctx, "session", "show", "chaos", "--json")
	if err != nil {
		return 0, context.Cause(ctx) // there is none
	}
	var log struct{ Tasks []struct{ Code string } }
	if err := json.Unmarshal(out, &log); err != nil {
		return 0, err
	}
	for i, t := range log.Tasks {
		if t.Code != sessionCode(i+1) {
			return 0, problemf("lost", "step %d of the session is %q", i+1, t.Code)
		}
	}
	return len(log.Tasks), nil
}
