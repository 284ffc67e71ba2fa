package pipelines_test

import (
	"minsep/internal/pipelines"

	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
)

// TestOlderCertificate: a run with a certificate of an older version, which has fewer columns, goes
// on, and keeps it.
func TestOlderCertificate(t *testing.T) {
	d := newDirectory(t)
	d.must(d.run(t.Context(), 4, pipelines.Settings{Until: "account"}))
	path := filepath.Join(d.out, manifest.CertificateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := accounting.ParseCertificate(data)
	if err != nil {
		t.Fatal(err)
	}
	older, err := certificate.As(0).Encode()
	if err != nil {
		t.Fatal(err)
	}
	d.replaceCertificate(older)
	if r := d.must(d.run(t.Context(), 4, pipelines.Settings{})); r.Stages[1].Stage != "account" || r.Stages[1].State != pipelines.StageSkipped {
		t.Errorf("with minor 0: %+v", r.Stages)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(older) {
		t.Errorf("the certificate was written again: %v", err)
	}
	d = newDirectory(t)
	d.must(d.run(t.Context(), 4, pipelines.Settings{Until: "account"}))
	d.replaceCertificate(regexp.MustCompile(`"minor": \d+,`).ReplaceAll(data, nil))
	if _, err := d.run(t.Context(), 4, pipelines.Settings{}); err == nil {
		t.Error("columns that the certificate's own version does not have are taken for its own")
	}
}

// replaceCertificate writes another certificate, as the one that the account published.
func (d directory) replaceCertificate(data []byte) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.out, manifest.CertificateFile), data, 0o600); err != nil {
		d.t.Fatal(err)
	}
	run, err := manifest.ReadRun(d.t.Context(), d.out)
	if err != nil {
		d.t.Fatal(err)
	}
	before := run
	run.Stages = maps.Clone(run.Stages)
	account := run.Stages["account"]
	account.Files = maps.Clone(account.Files)
	account.Files[manifest.CertificateFile] = sha256.Sum256(data)
	run.Stages["account"] = account
	if err := manifest.WriteRun(d.out, run, &before); err != nil {
		d.t.Fatal(err)
	}
}
