// Command session-svg draws the first console block of README.md as a terminal, in docs/session.svg. TestDocuments
// compares the block with the output of its commands, and TestSessionIsUpToDate the picture with the block:
//
//	go run ./scripts/session-svg
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"log"
	"os"
	"regexp"
	"strings"
)

const (
	width, margin  = 860, 20
	top, line      = 56, 20 // of the first line, and from line to line
	columns        = 98     // of a line at 14 pixels
	typing, answer = 1.2, 0.4
)

func main() {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		log.Fatal(err)
	}
	picture, err := draw(string(readme))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("docs/session.svg", picture, 0o644); err != nil {
		log.Fatal(err)
	}
}

// draw returns the picture of the first console block. Its lines appear one after the other, a command with its
// output, and stay.
func draw(readme string) ([]byte, error) {
	block := regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindStringSubmatch(readme)
	if block == nil {
		return nil, errors.New("README.md has no console block")
	}
	lines := strings.Split(strings.TrimSuffix(block[1], "\n"), "\n")
	height := top + line*len(lines)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="A terminal session with Sandpiper">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre }
.command { fill: #f0f6fc; font-weight: bold }
.prompt { fill: #3fb950 }
@media (prefers-reduced-motion: no-preference) {
g { animation: show .2s both }
@keyframes show { from { opacity: 0 } }
}
</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<circle cx="22" cy="20" r="6" fill="#f85149"/><circle cx="42" cy="20" r="6" fill="#d29922"/><circle cx="62" cy="20" r="6" fill="#3fb950"/>
`, width, height, width, height)
	delay := 0.0
	for i, l := range lines {
		if n := len([]rune(l)); n > columns {
			return nil, fmt.Errorf("a line of the session has %d characters, more than %d: %s", n, columns, l)
		}
		class, prompt, rest := "", "", l
		switch {
		case strings.HasPrefix(l, "$ "):
			delay += typing
			class, prompt, rest = ` class="command"`, l[:2], l[2:]
		case l == ">" || strings.HasPrefix(l, "> "):
			class, prompt, rest = ` class="command"`, l[:1], l[1:]
		case i > 0 && (strings.HasPrefix(lines[i-1], "$ ") || strings.HasPrefix(lines[i-1], ">")):
			delay += answer
		}
		if prompt != "" {
			prompt = `<tspan class="prompt">` + html.EscapeString(prompt) + `</tspan>`
		}
		fmt.Fprintf(&b, `<g style="animation-delay: %.1fs"><text x="%d" y="%d"%s>%s%s</text></g>`+"\n", delay, margin, top+line*i, class,
			prompt, html.EscapeString(rest))
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}
