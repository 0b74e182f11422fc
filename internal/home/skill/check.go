package skill

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Limits.
const (
	maxName        = 100       // characters
	maxCode        = 1 << 20   // bytes
	maxDescription = 4096      // bytes
	maxInstruction = 256 << 10 // bytes
	maxTags        = 20
	maxTag         = 100  // bytes
	maxSkills      = 1000 // names
)

var nameForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// keywords of Python 3.14. Soft keywords are valid names.
const keywords = " False None True and as assert async await break class continue def del elif else except finally for from global if " +
	"import in is lambda nonlocal not or pass raise return try while with yield "

// Check returns the error that Save would return regardless of existing skills.
func (d Draft) Check() error {
	if err := CheckName(d.Name); err != nil {
		return err
	}
	if err := checkCode(d.Name, d.Code); err != nil {
		return err
	}
	if len(d.Description) > maxDescription || !utf8.ValidString(d.Description) {
		return fault.New(fault.Invalid, "the description of skill %q is not allowed: use up to %d bytes of UTF-8, this has %d", d.Name,
			maxDescription, len(d.Description))
	}
	if len(d.Instructions) > maxInstruction || !utf8.ValidString(d.Instructions) {
		return fault.New(fault.Invalid, "the instructions of skill %q are not allowed: use up to %d bytes of UTF-8, these have %d", d.Name,
			maxInstruction, len(d.Instructions))
	}
	if len(d.Tags) > maxTags {
		return fault.New(fault.Invalid, "skill %q has %d tags: up to %d are allowed", d.Name, len(d.Tags), maxTags)
	}
	for _, tag := range d.Tags {
		if tag == "" || len(tag) > maxTag || !utf8.ValidString(tag) || strings.ContainsRune(tag, 0) {
			return fault.New(fault.Invalid, "tag %.80q is not allowed: use 1 to %d bytes of UTF-8", tag, maxTag)
		}
	}
	return nil
}

// CheckName reports whether name is a valid skill name.
func CheckName(name string) error {
	switch {
	case !nameForm.MatchString(name) || len(name) > maxName:
		return fault.New(fault.Invalid, "skill name %.80q is not allowed: use 1 to %d letters a-z and A-Z, digits and '_', not starting "+
			"with a digit", name, maxName)
	case strings.Contains(keywords, " "+name+" "):
		return fault.New(fault.Invalid, "skill name %q is not allowed: it is a keyword of Python and cannot be imported", name)
	case strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__"):
		return fault.New(fault.Invalid, "skill name %q is not allowed: names that begin and end with two underscores are Python's own",
			name)
	}
	return nil
}

func checkCode(name, code string) error {
	switch {
	case strings.TrimSpace(code) == "":
		return fault.New(fault.Invalid, "the code of skill %q must not be empty", name)
	case len(code) > maxCode:
		return fault.New(fault.Invalid, "the code of skill %q has %d bytes: up to %d are allowed", name, len(code), maxCode)
	case !utf8.ValidString(code):
		return fault.New(fault.Invalid, "the code of skill %q is not valid UTF-8", name)
	case strings.ContainsRune(code, 0):
		return fault.New(fault.Invalid, "the code of skill %q contains a NUL character, which Python refuses", name)
	}
	return nil
}
