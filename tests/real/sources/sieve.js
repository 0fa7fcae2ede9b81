// A hot loop that is compiled while it runs, strings, objects, a timer and an exception.
function primes(limit) {
    const sieve = new Uint8Array(limit);
    let found = 0;
    for (let i = 2; i < limit; ++i) {
        if (sieve[i]) continue;
        ++found;
        for (let j = i * 2; j < limit; j += i) sieve[j] = 1;
    }
    return found;
}
const words = new Map();
for (let i = 0; i < 20000; ++i) words.set(`w${i % 977}`, (words.get(`w${i % 977}`) || 0) + i);
let total = 0;
for (let i = 0; i < 20; ++i) total += primes(20000 + i);
setTimeout(() => {
    try {
        null.field;
    } catch (error) {
        console.log(total, words.get('w7'), error.constructor.name);
        process.exit(3);
    }
}, 1);
