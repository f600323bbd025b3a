//! Ring 2: the features that the processor offers to programs, by the names of `/proc/cpuinfo`. Libraries look at them
//! when they start, and rely on the result from then on.
//!
//! # Safety
//! CPUID exists on every x86-64 processor; XGETBV is used only if CPUID reports that the system enables it.

use std::arch::x86_64::{__cpuid_count, __get_cpuid_max, CpuidResult};
use std::sync::OnceLock;

/// Position of a feature: leaf, subleaf, register (0 to 3: eax to edx), bit, name.
type Place = (u32, u32, u8, u8, &'static str);

/// Features by which programs choose their code. Features that only operating systems use, or that every x86-64 has,
/// are not listed.
const FEATURES: [Place; 84] = [
    (1, 0, 2, 0, "pni"),
    (1, 0, 2, 1, "pclmulqdq"),
    (1, 0, 2, 9, "ssse3"),
    (1, 0, 2, 12, "fma"),
    (1, 0, 2, 13, "cx16"),
    (1, 0, 2, 19, "sse4_1"),
    (1, 0, 2, 20, "sse4_2"),
    (1, 0, 2, 22, "movbe"),
    (1, 0, 2, 23, "popcnt"),
    (1, 0, 2, 25, "aes"),
    (1, 0, 2, 26, "xsave"),
    (1, 0, 2, 27, "osxsave"),
    (1, 0, 2, 28, "avx"),
    (1, 0, 2, 29, "f16c"),
    (1, 0, 2, 30, "rdrand"),
    (7, 0, 1, 0, "fsgsbase"),
    (7, 0, 1, 3, "bmi1"),
    (7, 0, 1, 4, "hle"),
    (7, 0, 1, 5, "avx2"),
    (7, 0, 1, 8, "bmi2"),
    (7, 0, 1, 9, "erms"),
    (7, 0, 1, 11, "rtm"),
    (7, 0, 1, 16, "avx512f"),
    (7, 0, 1, 17, "avx512dq"),
    (7, 0, 1, 18, "rdseed"),
    (7, 0, 1, 19, "adx"),
    (7, 0, 1, 21, "avx512ifma"),
    (7, 0, 1, 23, "clflushopt"),
    (7, 0, 1, 24, "clwb"),
    (7, 0, 1, 26, "avx512pf"),
    (7, 0, 1, 27, "avx512er"),
    (7, 0, 1, 28, "avx512cd"),
    (7, 0, 1, 29, "sha_ni"),
    (7, 0, 1, 30, "avx512bw"),
    (7, 0, 1, 31, "avx512vl"),
    (7, 0, 2, 1, "avx512vbmi"),
    (7, 0, 2, 3, "pku"),
    (7, 0, 2, 4, "ospke"),
    (7, 0, 2, 5, "waitpkg"),
    (7, 0, 2, 6, "avx512_vbmi2"),
    (7, 0, 2, 8, "gfni"),
    (7, 0, 2, 9, "vaes"),
    (7, 0, 2, 10, "vpclmulqdq"),
    (7, 0, 2, 11, "avx512_vnni"),
    (7, 0, 2, 12, "avx512_bitalg"),
    (7, 0, 2, 14, "avx512_vpopcntdq"),
    (7, 0, 2, 22, "rdpid"),
    (7, 0, 2, 25, "cldemote"),
    (7, 0, 2, 27, "movdiri"),
    (7, 0, 2, 28, "movdir64b"),
    (7, 0, 3, 2, "avx512_4vnniw"),
    (7, 0, 3, 3, "avx512_4fmaps"),
    (7, 0, 3, 4, "fsrm"),
    (7, 0, 3, 5, "uintr"),
    (7, 0, 3, 8, "avx512_vp2intersect"),
    (7, 0, 3, 14, "serialize"),
    (7, 0, 3, 16, "tsxldtrk"),
    (7, 0, 3, 22, "amx_bf16"),
    (7, 0, 3, 23, "avx512_fp16"),
    (7, 0, 3, 24, "amx_tile"),
    (7, 0, 3, 25, "amx_int8"),
    (7, 1, 0, 0, "sha512"),
    (7, 1, 0, 1, "sm3"),
    (7, 1, 0, 2, "sm4"),
    (7, 1, 0, 4, "avx_vnni"),
    (7, 1, 0, 5, "avx512_bf16"),
    (7, 1, 0, 7, "cmpccxadd"),
    (7, 1, 0, 10, "fzrm"),
    (7, 1, 0, 11, "fsrs"),
    (7, 1, 0, 12, "fsrc"),
    (7, 1, 0, 21, "amx_fp16"),
    (7, 1, 0, 23, "avx_ifma"),
    (0xd, 1, 0, 0, "xsaveopt"),
    (0xd, 1, 0, 1, "xsavec"),
    (0xd, 1, 0, 2, "xgetbv1"),
    (EXTENDED, 0, 2, 0, "lahf_lm"),
    (EXTENDED, 0, 2, 5, "abm"),
    (EXTENDED, 0, 2, 6, "sse4a"),
    (EXTENDED, 0, 2, 7, "misalignsse"),
    (EXTENDED, 0, 2, 8, "3dnowprefetch"),
    (EXTENDED, 0, 2, 11, "xop"),
    (EXTENDED, 0, 2, 16, "fma4"),
    (EXTENDED, 0, 2, 21, "tbm"),
    (EXTENDED, 0, 3, 27, "rdtscp"),
];
const EXTENDED: u32 = 0x8000_0001;
/// All leaves that the table uses.
const LEAVES: [(u32, u32); 5] = [(1, 0), (7, 0), (7, 1), (STATE, 1), (EXTENDED, 0)];
/// Leaf of the processor state.
const STATE: u32 = 0xd;

/// Returns the features that this processor, and the system on it, offer to programs. They are read only once: in a
/// virtual machine each CPUID leaves the machine, which takes up to 70 us.
pub fn features() -> Vec<&'static str> {
    static KNOWN: OnceLock<Vec<&'static str>> = OnceLock::new();
    KNOWN
        .get_or_init(|| {
            let leaves: Vec<_> = LEAVES.iter().map(|(leaf, subleaf)| leaf_of(*leaf, *subleaf)).collect();
            let offered = |(leaf, subleaf, register, bit, _): &&Place| {
                let place = LEAVES.iter().position(|it| it == &(*leaf, *subleaf)).expect("all leaves are listed");
                let CpuidResult { eax, ebx, ecx, edx } = leaves[place];
                [eax, ebx, ecx, edx][usize::from(*register)] & 1 << bit != 0
            };
            FEATURES.iter().filter(offered).map(|(.., name)| *name).collect()
        })
        .clone()
}

/// Returns the location of each feature of a set of XSAVE features in an XSAVE area: feature, offset, length.
/// Processors of different makers may differ.
pub fn state_areas(features: u64) -> Vec<(u32, u32, u32)> {
    static KNOWN: OnceLock<Vec<(u32, u32, u32)>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let enabled = enabled_state();
        let features = (2..u64::BITS).filter(|feature| enabled & 1 << feature != 0);
        features
            .map(|feature| (feature, leaf_of(STATE, feature)))
            .map(|(feature, it)| (feature, it.ebx, it.eax))
            .collect()
    });
    known.iter().filter(|(feature, ..)| features & 1 << feature != 0).copied().collect()
}

/// Returns the XSAVE features that are enabled here (XCR0), or 0 if the processor has none.
pub fn enabled_state() -> u64 {
    const OSXSAVE: u32 = 1 << 27;
    if leaf_of(1, 0).ecx & OSXSAVE == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: the system has enabled the instruction, which changes nothing but these registers.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Reads a leaf; one that the processor lacks is all zeros.
fn leaf_of(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: see above.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    unsafe {
        let (last, _) = __get_cpuid_max(leaf & EXTENDED & !1);
        let last_subleaf = if leaf == 7 { __cpuid_count(7, 0).eax } else { u32::MAX };
        if leaf > last || subleaf > last_subleaf {
            return CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
        }
        __cpuid_count(leaf, subleaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_names_match_those_of_the_kernel() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap();
        let known: Vec<&str> = flags.split_whitespace().collect();
        let ours = features();
        // Features that the kernel hides (because of a processor bug, say) are missing from its list only.
        for name in ["pni", "avx", "avx2", "bmi2", "sse4_2", "avx512f", "xsave", "rdtscp", "abm", "sha_ni", "lahf_lm"] {
            assert!(!known.contains(&name) || ours.contains(&name), "{name}");
        }
        assert!(ours.contains(&"pni"));
    }

    #[test]
    fn avx_registers_are_at_their_architectural_offset() {
        let enabled = enabled_state();
        if enabled & 0b100 != 0 {
            assert_eq!(state_areas(enabled)[0], (2, 576, 256), "the upper halves of the AVX registers");
        }
    }
}
