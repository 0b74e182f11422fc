package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeDesktop writes an archive for each system without a sandbox. It contains the program and the
// image that "sandpiper serve" loads into a container engine.
func writeDesktop(ctx context.Context, r *release) error {
	for _, t := range others {
		image := filepath.Join(r.dir, "sandpiper-image.tar")
		if err := r.writeDockerArchive(ctx, image, t.arch); err != nil {
			return err
		}
		defer os.Remove(image)
		files, err := r.documents()
		if err != nil {
			return err
		}
		files = append(files, file{name: filepath.Base(r.programs[t]), path: r.programs[t], mode: 0o755},
			file{name: "sandpiper-image.tar", path: image, mode: 0o644})
		base := fmt.Sprintf("sandpiper_%s_%s", r.version, t)
		for i := range files {
			files[i].name = base + "/" + files[i].name
		}
		if t.os == "windows" {
			err = writeZip(filepath.Join(r.dir, base+".zip"), r.time, files)
		} else {
			err = writeTarGz(filepath.Join(r.dir, base+".tar.gz"), r.time, files)
		}
		if err != nil {
			return err
		}
		if err := os.Remove(image); err != nil {
			return err
		}
	}
	return nil
}

// writeDockerArchive writes the image for an architecture in the format that every engine loads.
func (r *release) writeDockerArchive(ctx context.Context, path, arch string) error {
	img, err := r.image(ctx, target{"linux", arch}, types.DockerLayer)
	if err != nil {
		return err
	}
	tag, err := name.NewTag("localhost/sandpiper:" + r.version)
	if err != nil {
		return err
	}
	return create(path, func(w io.Writer) error { return tarball.Write(tag, img, w) })
}
