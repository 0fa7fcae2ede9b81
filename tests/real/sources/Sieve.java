import java.util.HashMap;

/** A hot loop that is compiled while it runs, collected garbage, threads and exceptions. */
public class Sieve {
    static int primes(int limit) {
        byte[] sieve = new byte[limit];
        int found = 0;
        for (int i = 2; i < limit; ++i) {
            if (sieve[i] != 0) continue;
            ++found;
            for (int j = 2 * i; j < limit; j += i) sieve[j] = 1;
        }
        return found;
    }

    static int lengthOf(String text) {
        try {
            return text.length();  // a null pointer is found by SIGSEGV once this is compiled
        } catch (NullPointerException error) {
            return -1;
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        int[] sums = new int[2];
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; ++t) {
            final int number = t;
            threads[t] = new Thread(() -> {
                for (int i = 0; i < 20; ++i) sums[number] += primes(20000 + i + number);
            });
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
        HashMap<String, Integer> words = new HashMap<>();
        int nulls = 0;
        for (int i = 0; i < 30000; ++i) {
            words.merge("w" + i % 977, i, Integer::sum);
            nulls += lengthOf(i % 1000 == 999 ? null : "abc");
        }
        System.out.println(sums[0] + " " + sums[1] + " " + words.get("w7") + " " + nulls);
        System.exit(4);
    }
}
