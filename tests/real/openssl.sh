# OpenSSL: digests and ciphers, whose code is chosen by the processor
# needs: openssl
prepare() { seq 200000 >numbers; }
run() {
    $TRACE openssl dgst -sha256 numbers
    $TRACE openssl enc -aes-256-gcm -K 00 -iv 00 -in numbers 2>&1 | head -c 100 | cksum
    $TRACE openssl enc -aes-256-ctr -K "$(printf '%064d' 7)" -iv "$(printf '%032d' 3)" -in numbers -out secret
}
