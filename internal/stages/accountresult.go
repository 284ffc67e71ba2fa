package stages

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/store"
)

// compareAccount compares the certificate and its ledger with the plan.
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
	differs, err := AccountOf(d.Plan).differences(ctx, d.Out, certificate)
	return true, differs, err
}

// differences names the parts of a certificate that the account would write differently: it is of
// another request, or its bytes do not follow from the ledger.
func (a Account) differences(ctx context.Context, out string, certificate []byte) (differs []string, err error) {
	here, err := ReadPresent(ctx, out, manifest.CertificateFile, manifest.BatchesFolder, manifest.NoiseFolder) // the table decides
	if err != nil {
		return nil, err
	}
	_, r, _, err := a.Problem(ctx, here)
	if err != nil {
		return nil, err
	}
	if _, err := accounting.ParseCertificate(certificate); err != nil {
		return []string{"its certificate cannot be read"}, nil
	}
	folder := store.Join(out, manifest.LedgerFolder)
	if differs, err = r.differs(ctx, folder, "in the plan"); differs != nil {
		return differs, nil
	}
	l, errLedger := ledger.Read(ctx, folder)
	if errors.Join(err, errLedger) != nil {
		return []string{"its ledger cannot be read"}, nil
	}
	// The ledger must give this certificate again, byte for byte: an altered certificate, or one of
	// another ledger, does not follow from it.
	again, err := l.CertificateFile()
	if err != nil {
		return []string{"its ledger gives no certificate"}, nil
	}
	if !bytes.Equal(again, certificate) {
		differs = append(differs, "its bytes do not follow from its ledger")
	}
	// Bounds without samples are in the protocol itself: nothing in the ledger would contradict an
	// altered one.
	if calibration.CheckProofs(ctx, l.Protocol()) != nil {
		differs = append(differs, "a bound in its ledger does not hold when it is computed again")
	}
	return differs, nil
}

// claimFile returns the name of the file that the account leaves, or has left.
func (d *Directory) claimFile() string {
	if name, err := FindClaim(context.Background(), d.Out); err == nil && name != "" { // Compare returns the error
		return name
	}
	if accountMethod(d.Plan) == accounting.Unproven {
		return manifest.AccountingFile
	}
	return manifest.CertificateFile
}

// LedgerFiles returns the names of the files of a run directory's ledger.
func LedgerFiles(ctx context.Context, out string) []string {
	files := []string{manifest.RequestFile, ledger.ProtocolFile}
	if _, err := store.Stat(ctx, store.Join(out, manifest.LedgerFolder, ledger.UnitsFile)); err == nil {
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

// names returns the names in folders of a run directory, and none if they cannot be read: nothing
// that depends on them can be read then either.
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
