//! The declarations of the configuration: one text per type from which the type, its defaults, its decoder, its JSON
//! Schema and its documentation come, so that none of them can differ from the others.

/// Declares configuration types. A field is `pub name: Type = default`, or without a default where it must be given.
///
/// Before a struct's or enum's body may stand `short("what", function)`, for a form that is not the full map, and
/// `check(function)`, for what no single field can tell.
macro_rules! config {
    // every field has a default: so has the whole
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? = $default:expr
            ),* $(,)?
        }
    ) => {
        config! { @struct
            $(#[doc = $doc])*
            pub struct $name $(short($label, $short))? $(check($check))? {
                $($(#[doc = $fdoc])* $(#[range($lo, $hi)])? pub $field : $type $(as $rename)? = $default),*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
    // some field must be given
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        config! { @struct
            $(#[doc = $doc])*
            pub struct $name $(short($label, $short))? $(check($check))? {
                $($(#[doc = $fdoc])* $(#[range($lo, $hi)])? pub $field : $type $(as $rename)? $(= $default)?),*
            }
        }
    };
    (@struct
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? $(= $default:expr)?
            ),*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $fdoc])* pub $field: $type),*
        }
    };
    // words alone
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident $(short($label:literal, $short:path))? {
            $(
                $(#[doc = $vdoc:literal])*
                $variant:ident = $word:literal
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant),*
        }
    };
    // words, and one-key maps for those that carry something
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident $(short($label:literal, $short:path))? {
            $(
                $(#[doc = $vdoc:literal])*
                $variant:ident $(($type:ty))? = $word:literal
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant $(($type))?),*
        }
    };
}
