! Names parts of a Fortran program for `pagelens trace`, `place` and `run --plan`; see pagelens.h. Compile it and
! pagelens_fortran.c with the program:
!     use pagelens
!     call pagelens_region_begin("assembly")
!     call pagelens_region_end("assembly")
module pagelens
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t
    implicit none
    private
    public :: pagelens_region_begin, pagelens_region_end

    integer(c_int), parameter :: region_begin = 3, region_end = 4  ! enum pagelens_kind

    interface
        subroutine pagelens_mark(kind, name, size) bind(c)
            import :: c_char, c_int, c_int64_t
            integer(c_int), value :: kind
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: size
        end subroutine
    end interface

contains

    subroutine pagelens_region_begin(name)
        character(len=*), intent(in) :: name
        call pagelens_mark(region_begin, name, int(len_trim(name), c_int64_t))
    end subroutine

    subroutine pagelens_region_end(name)
        character(len=*), intent(in) :: name
        call pagelens_mark(region_end, name, int(len_trim(name), c_int64_t))
    end subroutine
end module
