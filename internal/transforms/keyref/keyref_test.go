package keyref_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"
)

func TestKeyIsTheRootsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := stream.CreateKeyFile(path); err != nil {
		t.Fatal(err)
	}
	root, err := stream.ReadKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	run, params := stream.RunID{1}, [32]byte{2}
	want := root.Key(run, params, "p").Commitment()
	for _, uri := range []string{path, "file://" + path} {
		ref := keyref.New(uri, run, params)
		if err := ref.Validate(); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(ref) // as it travels in a pipeline
		if err != nil {
			t.Fatal(err)
		}
		var back keyref.Ref
		if err := json.Unmarshal(b, &back); err != nil || back != ref {
			t.Fatalf("%s came back as %+v, %v", b, back, err)
		}
		k, err := back.Key(context.Background(), "p")
		if err != nil || k.Commitment() != want {
			t.Errorf("%s: another key, %v", uri, err)
		}
		if k, _ := back.Key(context.Background(), "q"); k.Commitment() == want {
			t.Error("two purposes have one key")
		}
	}
}

func TestFaults(t *testing.T) {
	bad := keyref.Ref{KeyURI: "gs://bucket/key", Params: "12"}
	err := bad.Validate()
	for _, want := range []string{"gs://bucket/key", "64 hexadecimal digits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a fault with %q", err, want)
		}
	}
	if _, err := bad.Key(context.Background(), "p"); err == nil {
		t.Error("a faulty reference gave a key")
	}
	missing := keyref.New(filepath.Join(t.TempDir(), "none"), stream.RunID{}, [32]byte{})
	if _, err := missing.Key(context.Background(), "p"); err == nil {
		t.Error("a missing file gave a key")
	}
}

func ExampleRef() {
	ref := keyref.New("/secrets/root.key", stream.RunID{0xab}, [32]byte{0xcd})
	b, _ := json.Marshal(ref)
	fmt.Println(string(b))
	// Output: {"key_uri":"/secrets/root.key","run_id":"ab000000000000000000000000000000","params_sha256":"cd00000000000000000000000000000000000000000000000000000000000000"}
}
