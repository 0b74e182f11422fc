package config_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestLearningIsTurnedOff(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "search: {learn: false}\n"})
	if got, err := config.Load(src); err != nil || got.Search.Learn {
		t.Errorf("%+v, %v", got, err)
	}
	src, _ = sources(t, map[string]string{"work/sandpiper.yaml": "search: {learn: sometimes}\n"})
	if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "search.learn") {
		t.Errorf("%v", err)
	}
}
