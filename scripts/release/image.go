package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	debian = "bookworm"
	user   = 65532
)

// writeImages writes sandpiper_VERSION_image.tar, an OCI image layout of all architectures.
func writeImages(ctx context.Context, r *release) error {
	index := v1.ImageIndex(empty.Index)
	for _, t := range linux {
		img, err := r.image(ctx, t, types.OCILayer)
		if err != nil {
			return err
		}
		img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: t.arch}}})
	}
	dir, err := os.MkdirTemp("", "sandpiper-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := layout.Write(dir, empty.Index)
	if err == nil { // one entry, so that engines choose the architecture
		err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "sandpiper:" +
			r.version}))
	}
	if err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files = append(files, file{name: filepath.ToSlash(name), path: path, mode: 0o644})
		}
		return err
	})
	if err != nil {
		return err
	}
	return create(filepath.Join(r.dir, fmt.Sprintf("sandpiper_%s_image.tar", r.version)),
		func(w io.Writer) error { return writeTar(w, r.time, files) })
}

// image returns the image of packaging/Containerfile: the program and glibc, without a shell.
func (r *release) image(ctx context.Context, t target, media types.MediaType) (v1.Image, error) {
	base, err := r.baseLayer(ctx, t)
	if err != nil {
		return nil, err
	}
	var program bytes.Buffer
	if err := writeTar(&program, r.time, []file{{name: "usr/local/bin/sandpiper", path: r.programs[t], mode: 0o755}}); err != nil {
		return nil, err
	}
	img := v1.Image(empty.Image)
	for _, l := range []struct {
		content []byte
		by      string
	}{{base, "libc6, tzdata and ca-certificates of Debian " + debian}, {program.Bytes(), "sandpiper " + r.version}} {
		opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l.content)), nil }
		layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(media))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer,
			History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: l.by}}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", t.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), Env: []string{"PATH=/usr/local/bin", "HOME=/data", "XDG_CONFIG_HOME=/etc",
			"XDG_DATA_HOME=/data", "XDG_CACHE_HOME=/data/cache"},
		Entrypoint: []string{"/usr/local/bin/sandpiper"}, Cmd: []string{"serve", "--http", "0.0.0.0:8765"},
		ExposedPorts: map[string]struct{}{"8765/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}, WorkingDir: "/",
		Labels: map[string]string{"org.opencontainers.image.title": "sandpiper", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.source": homepage, "org.opencontainers.image.licenses": "MIT"},
	}
	return mutate.ConfigFile(img, config)
}

// baseLayer returns a tar archive of glibc, time zones, the CAs of the web, and the directories and
// the user of the program.
func (r *release) baseLayer(ctx context.Context, t target) ([]byte, error) {
	dir, err := os.MkdirTemp("", "sandpiper-debian-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	download := command(ctx, r.root, "scripts/debian-packages", debian, dir, "libc6", "tzdata", "ca-certificates")
	download.Env = append(os.Environ(), "DEBIAN_ARCHITECTURE="+t.arch)
	packages, err := outputOf(download)
	if err != nil {
		return nil, err
	}
	l := layer{release: r}
	l.out = tar.NewWriter(&l.content)
	for _, d := range []tar.Header{{Name: "data/", Mode: 0o700, Uid: user, Gid: user}, {Name: "tmp/", Mode: 0o1777},
		{Name: "etc/", Mode: 0o755}} {
		d.Typeflag = tar.TypeDir
		l.add(&d, nil)
	}
	names := strings.Split(packages, "\n")
	slices.Sort(names)
	for _, name := range names {
		if err := l.unpack(command(ctx, dir, "dpkg-deb", "--fsys-tarfile", name)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	if l.authorities.Len() == 0 {
		return nil, errors.New("ca-certificates has no certificates")
	}
	l.text("etc/ssl/certs/ca-certificates.crt", l.authorities.String())
	l.text("etc/passwd", fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nsandpiper:x:%d:%d:Sandpiper:/data:/sbin/nologin\n", user, user))
	l.text("etc/group", fmt.Sprintf("root:x:0:\nsandpiper:x:%d:\n", user))
	return l.content.Bytes(), errors.Join(l.err, l.out.Close())
}

// layer is a tar archive that is being written. The first error stays.
type layer struct {
	release     *release
	content     bytes.Buffer
	out         *tar.Writer
	authorities strings.Builder
	err         error
}

func (l *layer) add(h *tar.Header, content io.Reader) {
	h.ModTime, h.Format = l.release.time, tar.FormatPAX
	if l.err == nil {
		l.err = l.out.WriteHeader(h)
	}
	if l.err == nil && content != nil {
		_, l.err = io.Copy(l.out, content)
	}
}

func (l *layer) text(name, text string) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
}

// unpack adds the files of a Debian package that a program needs.
func (l *layer) unpack(c interface {
	Output() ([]byte, error)
}) error {
	content, err := c.Output()
	if err != nil {
		return err
	}
	in := tar.NewReader(bytes.NewReader(content))
	for {
		h, err := in.Next()
		if err == io.EOF {
			return l.err
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeDir:
		case path.Ext(name) == ".crt" && strings.HasPrefix(name, "usr/share/ca-certificates/"):
			if _, err := io.Copy(&l.authorities, in); err != nil {
				return err
			}
		case strings.HasPrefix(name, "lib"), strings.HasPrefix(name, "usr/lib/"), strings.HasPrefix(name, "usr/share/zoneinfo/"),
			path.Base(name) == "copyright":
			l.add(&tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Mode: h.Mode, Size: h.Size}, in)
		}
	}
}
