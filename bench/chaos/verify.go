package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// inspectCode is Python code that returns the version of each value that differs from
// the acknowledged one: another version, 0 if it is missing, -1 if no version matches.
// A skill must be equal in the store and as a module. It also returns files and skills
// that were not written.
const inspectCode = `
import hashlib, os

def digest(read, name):
    try:
        return hashlib.sha256(read(name).encode()).hexdigest()
    except (FileNotFoundError, ToolError):
        return None

def version(place, found):
    return 0 if found is None else place["versions"].get(found, -1)

other = []
for place in places:
    if place["kind"] == "skill":
        found = digest(load_skill, place["name"])
        if found != digest(read_file, "skills/" + place["name"] + ".py"):
            found = "differs"
    else:
        found = digest(read_file, place["name"])
    if (v := version(place, found)) != place["acknowledged"]:
        other.append([place["number"], v])
names = {p["name"] for p in places}
strangers = [f for d in folders if os.path.isdir(d) for f in list_files(d) if f not in names]
if everything:
    strangers += [s["name"] for s in list_skills() if s["name"] not in names]
result = {"other": other, "strangers": strangers[:100]}
`

// checkedKey is a key as passed to inspectCode.
type checkedKey struct {
	Number       int            `json:"number"`
	Kind         kind           `json:"kind"`
	Name         string         `json:"name"`
	Acknowledged int            `json:"acknowledged"`
	Versions     map[string]int `json:"versions"` // by digest: the versions that may be stored
}

// verify compares the values of keys with the ledger.
func (c *chaos) verify(ctx context.Context, conn *rig.Client, keys []key, folders ...string) error {
	var places []checkedKey
	var at []key
	for _, k := range keys {
		if k.kind == step {
			if err := c.verifySession(ctx, k); err != nil {
				return err
			}
			continue
		}
		places = append(places, c.checkedKey(k, len(at)))
		at = append(at, k)
	}
	everything := len(folders) == 0
	if everything {
		folders = []string{"chaos"}
	}
	x, err := conn.Execute(ctx, inspectCode, rig.Args{"timeout_seconds": 300, "context_vars": rig.Args{
		"places": places, "folders": folders, "everything": everything,
	}})
	if err != nil {
		return err
	}
	var found struct {
		Other     [][2]int
		Strangers []string
	}
	if err := json.Unmarshal(x.Result, &found); err != nil || !x.Success {
		return fmt.Errorf("inspect the stored values: result %.300s %s: %w", x.Result, x.Error, err)
	}
	versions := make([]int, len(places))
	for i, p := range places {
		versions[i] = p.Acknowledged
	}
	for _, o := range found.Other {
		versions[o[0]] = o[1]
	}
	for i, k := range at {
		c.checkVersion(k, versions[i])
	}
	c.checkUnexpected(found.Strangers)
	return nil
}

func (c *chaos) checkedKey(k key, number int) checkedKey {
	e := c.ledger.find(k)
	p := checkedKey{Number: number, Kind: k.kind, Name: k.name, Acknowledged: e.acknowledged, Versions: map[string]int{}}
	for v := max(1, e.acknowledged); v <= e.begun; v++ {
		p.Versions[fmt.Sprintf("%x", sha256.Sum256([]byte(content(k, v))))] = v
	}
	return p
}

// checkVersion compares the version found for a key with the ledger.
func (c *chaos) checkVersion(k key, version int) {
	e := c.ledger.find(k)
	c.res.Checked++
	if e.begun > e.acknowledged {
		c.res.InFlight++
	}
	what := fmt.Sprintf("round %d: %s %s: version %d was acknowledged and %d begun, found %d",
		c.res.Rounds, k.kind, k.name, e.acknowledged, e.begun, version)
	switch {
	case version >= e.acknowledged && version <= e.begun:
	case version < 0 && e.begun > e.acknowledged:
		c.res.Torn = append(c.res.Torn, what+" (-1: matches no version)")
	default:
		c.res.Lost = append(c.res.Lost, what)
	}
	c.ledger.found(k, max(version, 0))
}

// checkUnexpected reports files and skills that were not written. The temporary files
// of code that was killed during a write are expected.
func (c *chaos) checkUnexpected(names []string) {
	for _, n := range names {
		if strings.HasPrefix(path.Base(n), "."+string(code)) {
			c.res.Scratch++
			continue
		}
		c.res.Torn = append(c.res.Torn, fmt.Sprintf("round %d: %s exists but was not written", c.res.Rounds, n))
	}
}

// minSteps is the minimum number of latest steps that a session retains.
const minSteps = 750

// verifySession checks that the log of a session has each step once and in order, from
// the first one that it retains.
func (c *chaos) verifySession(ctx context.Context, k key) error {
	out, err := c.rig.Run(ctx, "session", "show", k.name, "--json")
	if err != nil {
		if e := c.ledger.find(k); e.acknowledged > 0 {
			c.res.Lost = append(c.res.Lost, fmt.Sprintf("round %d: %s: %v", c.res.Rounds, k.name, err))
		}
		return context.Cause(ctx)
	}
	var log struct {
		Tasks []struct{ Code, Result string }
	}
	if err := json.Unmarshal(out, &log); err != nil {
		return errors.Join(err, fmt.Errorf("session show returned %.200s", out))
	}
	first := 1
	if len(log.Tasks) >= minSteps {
		if _, err := fmt.Sscanf(log.Tasks[0].Code, stepCode, &first); err != nil {
			c.res.Torn = append(c.res.Torn, fmt.Sprintf("round %d: the first step of %s is %q", c.res.Rounds, k.name, log.Tasks[0].Code))
		}
	}
	for i, t := range log.Tasks {
		if want := fmt.Sprintf(stepCode, first+i); t.Code != want {
			c.res.Torn = append(c.res.Torn, fmt.Sprintf("round %d: step %d of %s is %q", c.res.Rounds, first+i, k.name, t.Code))
		}
	}
	c.checkVersion(k, first+len(log.Tasks)-1)
	return nil
}
