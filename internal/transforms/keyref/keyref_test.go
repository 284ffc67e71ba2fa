package keyref_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"
)

func TestKeyIsTheRootsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	must.Do(t, stream.CreateKeyFile(path))
	root := must.Get(stream.ReadKeyFile(path))(t)
	run, params := stream.RunID{1}, [32]byte{2}
	want := root.Key(run, params, "p").Commitment()
	for _, uri := range []string{path, "file://" + path} {
		ref := keyref.Ref{KeyURI: uri, RunID: run, Params: params}
		must.Do(t, ref.Validate())
		b := must.Get(json.Marshal(ref))(t) // as it travels in a pipeline
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
	bad := keyref.Ref{KeyURI: "gs://bucket/key"}
	must.Fail(t, "", "gs://bucket/key")(bad.Validate())
	must.Fail(t, "a faulty reference", "must be a path")(bad.Key(context.Background(), "p"))
	missing := keyref.Ref{KeyURI: filepath.Join(t.TempDir(), "none")}
	must.Fail(t, "a missing file", "no such file")(missing.Key(context.Background(), "p"))
}
