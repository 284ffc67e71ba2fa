package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/manifest"
	"minsep/internal/must"
)

// descriptor points to a blob of an OCI layout.
type descriptor struct {
	MediaType, Digest string
	Platform          struct{ OS, Architecture string }
}

// blob reads a blob of a layout.
func blob(t *testing.T, layout string, d descriptor) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(layout, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))))(t)
	return b
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	must.Do(t, json.Unmarshal(b, into))
}

// imageFiles are the files of the image, with mode and owner.
var imageFiles = map[string]string{
	"etc/passwd":                        "-rw-r--r-- 0",
	"etc/group":                         "-rw-r--r-- 0",
	"usr/bin/minsep":                    "-rwxr-xr-x 0",
	"usr/share/licenses/minsep/LICENSE": "-rw-r--r-- 0",
	"usr/share/licenses/minsep/NOTICES": "-rw-r--r-- 0",
	"usr/share/sbom/minsep.cdx.json":    "-rw-r--r-- 0",
	"home/minsep/":                      "drwx------ 65532",
	"tmp/":                              "dtrwxrwxrwx 0",
}

// TestImage makes the container image and reads it again: who runs what, every file of its layers,
// and what it says of itself. Then the command does a certificate with nothing but the image around
// it.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds wheels and an image: not with -short")
	}
	t.Parallel()
	pythonWith(t, "hatchling")
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("buildah is not here: on Debian, as root, apt-get install buildah")
	}
	wheel, _ := makeWheels(t)
	out := t.TempDir() // from the wheel that is there: -o
	if out, err := exec.Command("make", "--no-print-directory", "-C", "..", "-o", "wheels", "image", "DIST="+filepath.Dir(wheel), "IMAGE="+out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	layout := filepath.Join(out, "layout")
	var index struct{ Manifests []descriptor }
	top := must.Get(os.ReadFile(filepath.Join(layout, "index.json")))(t)
	decode(t, top, &index)
	decode(t, blob(t, layout, index.Manifests[0]), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS != "linux" {
		t.Fatalf("images %+v", index.Manifests)
	}
	var image struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, blob(t, layout, index.Manifests[0]), &image)
	testImageConfig(t, blob(t, layout, image.Config))

	root := t.TempDir()
	found := map[string]string{}
	for _, layer := range image.Layers {
		must.Do(t, unpackLayer(blob(t, layout, layer), root, found))
	}
	parents := []string{"etc/", "home/", "usr/", "usr/bin/", "usr/share/", "usr/share/licenses/", "usr/share/licenses/minsep/", "usr/share/sbom/"}
	maps.DeleteFunc(found, func(name, what string) bool { return slices.Contains(parents, name) && what == "drwxr-xr-x 0" })
	if diff := cmp.Diff(imageFiles, found); diff != "" {
		t.Errorf("files (-want +image):\n%s", diff)
	}
	sbom := must.Get(os.ReadFile(filepath.Join(root, "usr", "share", "sbom", "minsep.cdx.json")))(t)
	if !bytes.Contains(sbom, []byte(`"pkg:golang/github.com/apache/beam/sdks/v2@`)) {
		t.Error("the bill of materials has nothing of Beam")
	}
	if os.Getuid() != 0 {
		t.Log("not root: the image was not run")
		return
	}
	for _, args := range []string{"--version", "keygen key", "account --scheme poisson --steps 10 --batch-size 10 --examples 1000 --bands 1 --epsilon 4 --delta 1e-5 --out run --quiet", "inspect run --quiet"} {
		cmd := exec.Command("/usr/bin/minsep", strings.Fields(args)...)
		cmd.Dir, cmd.Env = "/home/minsep", []string{"USER=minsep", "HOME=/home/minsep", "PATH=/usr/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, said)
		}
		if args == "--version" && !strings.Contains(string(said), manifest.Version) {
			t.Errorf("the version is %s", said)
		}
	}
}

func testImageConfig(t *testing.T, b []byte) {
	t.Helper()
	var got struct {
		Config struct {
			User, WorkingDir     string
			Entrypoint, Cmd, Env []string
			Labels               map[string]string
		}
	}
	decode(t, b, &got)
	c := got.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/minsep"}) || len(c.Cmd) != 0 || c.WorkingDir != "/home/minsep" {
		t.Errorf("user %s, entry point %q %q in %s", c.User, c.Entrypoint, c.Cmd, c.WorkingDir)
	}
	beam := must.Get(exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/apache/beam/sdks/v2").Output())(t)
	for label, want := range map[string]string{
		"org.opencontainers.image.version":  manifest.Version,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"minsep.beam":                       strings.TrimPrefix(strings.TrimSpace(string(beam)), "v"),
		"minsep.sbom":                       "/usr/share/sbom/minsep.cdx.json",
	} {
		if c.Labels[label] != want {
			t.Errorf("label %s: %q, want %q", label, c.Labels[label], want)
		}
	}
	if len(c.Labels["org.opencontainers.image.revision"]) != 40 {
		t.Errorf("revision %q", c.Labels["org.opencontainers.image.revision"])
	}
}

// unpackLayer lays a layer out below root, and notes mode and owner of each file.
func unpackLayer(layer []byte, root string, found map[string]string) error {
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		info := h.FileInfo()
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		name := strings.TrimPrefix(h.Name, "/")
		if name == "" || name == "./" {
			continue
		}
		found[name] = info.Mode().String() + " " + strconv.Itoa(h.Uid)
		switch {
		case info.IsDir():
			err = os.MkdirAll(path, 0o755)
		case info.Mode().IsRegular():
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err == nil && os.Getuid() == 0 {
			err = errors.Join(os.Chown(path, h.Uid, h.Gid), os.Chmod(path, info.Mode().Perm()|info.Mode()&fs.ModeSticky))
		}
		if err != nil {
			return err
		}
	}
}
