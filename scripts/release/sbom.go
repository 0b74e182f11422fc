package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeSBOM writes a CycloneDX list of the modules in each program, which has the embedded Python as one, and of pypdf.
func writeSBOM(ctx context.Context, r *release) error {
	for _, t := range linux {
		path := filepath.Join(r.dir, fmt.Sprintf("sandpiper_%s_%s.cdx.json", r.version, t))
		_, err := output(ctx, filepath.Join(r.root, "scripts/release"), "go", "tool", "cyclonedx-gomod", "bin", "-json", "-noserial",
			"-std", "-version", "v"+r.version, "-output", path, r.programs[t])
		if err != nil {
			return err
		}
		if err := r.complete(path); err != nil {
			return err
		}
	}
	return nil
}

// complete adds pypdf to a list, and replaces its time, which is the present one.
func (r *release) complete(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list map[string]any
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	metadata, ok := list["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no metadata", filepath.Base(path))
	}
	metadata["timestamp"] = r.time.Format("2006-01-02T15:04:05Z")
	_, version, err := wheel(r.root)
	if err != nil {
		return err
	}
	components, _ := list["components"].([]any)
	purl := "pkg:pypi/pypdf@" + version
	list["components"] = append(components, map[string]string{
		"bom-ref": purl, "type": "library", "name": "pypdf", "version": version, "purl": purl,
	})
	if b, err = json.MarshalIndent(list, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
