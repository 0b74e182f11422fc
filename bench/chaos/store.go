package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// stored is the state of a place where the kind store overwrites a value, or adds a step. Versions count
// from 1.
type stored struct{ acknowledged, begun int }

// lastStored is the last version of each place.
const lastStored = 15

func newStored() map[string]*stored {
	return map[string]*stored{"file": {}, "code": {}, "skill": {}, "session": {}}
}

// driveStore writes to all places at a time, after checking what is there.
func driveStore(ctx context.Context, r *round, d *rig.Daemon) error {
	if r.lives > 1 {
		if err := checkStored(ctx, r, d.Client); err != nil {
			return err
		}
	}
	var writers sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for place, s := range r.stored {
		writers.Go(func() {
			var err error
			for err == nil && s.begun < lastStored {
				s.begun++
				if err = store(ctx, d.Client, place, s.begun); err == nil {
					s.acknowledged = s.begun
				}
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
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

// inspectCode returns digests of the stored values. A skill must be equal in the store and as a module.
const inspectCode = `
import hashlib

def digest(read, name):
    try:
        return hashlib.sha256(read(name).encode()).hexdigest()
    except (FileNotFoundError, ToolError):
        return ""

result = {"file": digest(read_file, "chaos/file"), "code": digest(read_file, "chaos/code"), "skill": digest(load_skill, "stored")}
if result["skill"] != digest(read_file, "skills/stored.py"):
    result["skill"] = "differs"
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
	for place, s := range r.stored {
		version := -1
		if place == "session" {
			version = sessionSteps(ctx, r)
		}
		for _, v := range []int{s.acknowledged, s.begun} {
			if sum := sha256.Sum256([]byte(content(place, v))); found[place] == fmt.Sprintf("%x", sum) ||
				v+len(found[place]) == 0 && place != "session" {
				version = v
			}
		}
		if version < s.acknowledged || version > s.begun {
			return problemf("lost", "%s: version %d was acknowledged and %d begun, found %d", place, s.acknowledged, s.begun, version)
		}
		*s = stored{version, version}
	}
	return nil
}

// sessionSteps returns the number of steps of the session, or -1 if they are not in order.
func sessionSteps(ctx context.Context, r *round) int {
	var log struct{ Tasks []struct{ Code string } }
	if out, err := r.rig.Run(ctx, "session", "show", "chaos", "--json"); err == nil && json.Unmarshal(out, &log) != nil {
		return -1
	}
	for i, t := range log.Tasks {
		if t.Code != sessionCode(i+1) {
			return -1
		}
	}
	return len(log.Tasks)
}
