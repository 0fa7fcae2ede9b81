// Threads that send vectors of strings over channels; one of them panics and is caught.
use std::collections::HashMap;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn main() {
    std::panic::set_hook(Box::new(|_| {})); // its message names the thread by a number
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Mutex::new(HashMap::new()));
    let mut threads = Vec::new();
    for t in 0..4u64 {
        let (sender, shared) = (sender.clone(), shared.clone());
        threads.push(thread::spawn(move || {
            let mut words: Vec<String> = (0..5000u64).map(|i| format!("{:05}", i * (t + 7) % 4999)).collect();
            words.sort();
            *shared.lock().unwrap().entry(t % 2).or_insert(0) += words.len();
            sender.send(words[100].clone()).unwrap();
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    drop(sender);
    let mut received: Vec<String> = receiver.iter().collect();
    received.sort();
    let failed = thread::spawn(|| -> u32 { [1u32, 2][std::env::args().count() + 1] }).join().is_err();
    println!("{:?} {:?} {}", received, shared.lock().unwrap().get(&1), failed);
    std::process::exit(8);
}
