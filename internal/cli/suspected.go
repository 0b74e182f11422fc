package cli

import "github.com/sandpiper-mcp/sandpiper/internal/guardrail"

// Suspicion is text that reads like instructions to a model.
type Suspicion struct {
	Kind string `json:"kind"` // see package guardrail
	Text string `json:"text"`
}

// Suspect returns the parts of texts that read like instructions to a model.
func Suspect(texts ...string) (all []Suspicion) {
	for _, text := range texts {
		for _, i := range guardrail.FindInjections(text) {
			all = append(all, Suspicion{i.Kind, text[i.Start:i.End]})
		}
	}
	return all
}

// PrintSuspected warns the person of the texts.
func PrintSuspected(env *Env, all []Suspicion) {
	for _, s := range all {
		env.Printf("  %s %s\n", StyleFor(env.Stdout).Red("suspected injection ("+s.Kind+"):"), VisibleName(s.Text))
	}
}
