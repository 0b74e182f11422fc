package keeper

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Packages are initialized in the order of their paths, as soon as those that they
// import are. These would delay the keeper until most of the program is initialized.
func TestKeeperImportsNothingThatIsInitializedLate(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	late := []string{"net", "os/exec", "os/signal", "log/slog", "regexp", "text/template"}
	for line := range strings.Lines(string(out)) {
		name, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(late, name) || standard == "false" && name != "golang.org/x/sys/unix" && !strings.HasSuffix(name,
			"/process/keeper") {
			t.Errorf("the keeper imports %s", name)
		}
	}
}
