package main

// The certificates of gs:// and s3:// are checked against the system's roots, or against these
// where there are none, as in the container image.
import _ "golang.org/x/crypto/x509roots/fallback"
