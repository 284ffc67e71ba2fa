package stages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/verification"
	"minsep/internal/store"
	"minsep/manifest"
)

// compareAccount holds the certificate and its ledger against the plan.
func compareAccount(ctx context.Context, d *Directory) (bool, []string, error) {
	if _, err := FindClaim(ctx, d.Out); err != nil {
		return false, nil, err
	}
	certificate, err := ReadFile(ctx, d.path(d.claimFile()))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	differs, err := d.Plan.AccountParams().differences(ctx, d.Out, certificate)
	return true, differs, err
}

// differences names the parts of a certificate that the account would write otherwise: another
// request, or bytes that the ledger does not give.
func (a Account) differences(ctx context.Context, out string, certificate []byte) (differs []string, err error) {
	here, err := ReadPresent(ctx, out, manifest.CertificateFile, manifest.BatchesFolder, manifest.NoiseFolder) // the table decides
	if err != nil {
		return nil, err
	}
	p, r, _, err := a.Problem(ctx, here)
	if err != nil {
		return nil, err
	}
	if c, err := accounting.ParseCertificate(certificate); a.From != "" && err == nil {
		if same, err := SameMatrix(c.Run.Strategy, p.Run.Strategy); err == nil && same {
			if r, err = r.For(c.Run.Strategy); err != nil {
				return nil, err
			}
		}
	}
	folder := store.Join(out, manifest.LedgerFolder)
	want, err := r.Encode()
	if err != nil {
		return nil, err
	}
	got, err := ReadFile(ctx, store.Join(folder, manifest.RequestFile))
	if err != nil {
		return []string{"its ledger cannot be read"}, nil
	}
	if !bytes.Equal(got, want) {
		return JSONDifferences(got, want), nil
	}
	l, err := ledger.Read(ctx, folder)
	if err != nil {
		return []string{"its ledger cannot be read"}, nil
	}
	if l.Torn() {
		differs = append(differs, manifest.LedgerFolder+"/"+ledger.UnitsFile+" ends in a part of a line")
	}
	again, err := l.Certificate()
	if err != nil {
		return []string{"its ledger gives no certificate"}, nil
	}
	b, err := again.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(b, certificate) {
		differs = append(differs, "its bytes are not those that its ledger gives")
	}
	if verification.CheckProofs(ctx, l.Protocol()) != nil {
		differs = append(differs, "a bound in its ledger does not hold when it is computed again")
	}
	return differs, nil
}

// claimFile is the name of the file that the account leaves, or has left.
func (d *Directory) claimFile() string {
	if name, err := FindClaim(context.Background(), d.Out); err == nil && name != "" { // Compare returns the error
		return name
	}
	if d.Plan.accountMethod() == accounting.Unproven {
		return manifest.AccountingFile
	}
	return manifest.CertificateFile
}

// compactDigest is the SHA-256 of a file of JSON, compact.
func compactDigest(ctx context.Context, path string) (manifest.Digest, error) {
	b, err := ReadFile(ctx, path)
	if err != nil {
		return manifest.Digest{}, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, b)
	return sha256.Sum256(compact.Bytes()), err
}

// LedgerFiles are the files of a run directory's ledger.
func LedgerFiles(ctx context.Context, out string) []string {
	files := []string{manifest.RequestFile, ledger.ProtocolFile}
	// An empty log is as good as none: an object store has none before the first unit.
	if info, err := store.Stat(ctx, store.Join(out, manifest.LedgerFolder, ledger.UnitsFile)); err == nil && info.Size > 0 {
		files = append(files, ledger.UnitsFile)
	}
	for _, replaced := range names(ctx, out, manifest.LedgerFolder, manifest.EarlierFolder) {
		for _, file := range names(ctx, out, manifest.LedgerFolder, manifest.EarlierFolder, replaced) {
			files = append(files, manifest.EarlierFolder+"/"+replaced+"/"+file)
		}
	}
	for i := range files {
		files[i] = manifest.LedgerFolder + "/" + files[i]
	}
	return files
}

// names are those in a folder of a run directory; none if it cannot be read, for then neither can
// the values that depend on it.
func names(ctx context.Context, out string, folders ...string) (list []string) {
	entries, err := store.List(ctx, store.Join(out, folders...))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}
