package main

// TLS connections to gs:// and s3:// use the system's root certificates, or these if there are
// none, as in the container image.
import _ "golang.org/x/crypto/x509roots/fallback"
