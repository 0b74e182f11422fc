package peers

import "testing"

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"2": "2",
		`{"success":true,"result":[1, 2],"output":[]}`: "[1,2]",
		`{"value":"Echo: 7","stdout":"","error":null}`: "Echo: 7",
		`"Echo: 7"`: "Echo: 7",
		"Echo: 7":   "Echo: 7",
		`{"success":false,"result":null,"error":"a loop"}`: "",
	} {
		if got := value(text); got != want {
			t.Errorf("value(%s) = %s; want %s", text, got, want)
		}
	}
}
