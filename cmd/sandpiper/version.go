package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// version is set by release builds with -ldflags "-X main.version=v1.2.3".
var version string

// buildVersion returns the release, the module version or the commit of this build,
// whichever is known first.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit[:min(12, len(commit))] + dirty
}

// programInfo describes this program.
type programInfo struct {
	Version   string   `json:"version"`
	Commit    string   `json:"commit,omitempty"`
	Date      string   `json:"date,omitempty"` // of the commit
	Go        string   `json:"go"`
	Python    string   `json:"python"`
	Platform  string   `json:"platform"`
	Protocols []string `json:"protocols"` // revisions of MCP
}

func thisProgram() programInfo {
	b := programInfo{Version: buildVersion(), Go: runtime.Version(), Python: python.Version, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Protocols: wire.Revisions()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

// String returns the output of version and --version.
func (b programInfo) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "sandpiper %s (%s)\n", b.Version, b.Platform)
	if b.Commit != "" {
		fmt.Fprintf(&text, "commit    %s, %s\n", b.Commit, b.Date)
	}
	fmt.Fprintf(&text, "Go        %s\nPython    %s\nMCP       %s\n", strings.TrimPrefix(b.Go, "go"), b.Python,
		strings.Join(b.Protocols, ", "))
	return text.String()
}

func versionCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, of Python and of MCP",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runVersion(env) },
	}
}

func runVersion(env *cli.Env) error {
	b := thisProgram()
	if env.JSON {
		return env.WriteJSON(b)
	}
	env.Printf("%s", b)
	return nil
}
